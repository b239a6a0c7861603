package demo_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/app/demo"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestTheDemoRunsItsThreeOrdersAndChecksTheLedger(t *testing.T) {
	cfg := config.Default(config.Dev)
	cfg.Database.URL = config.Secret(testdb.DSN(t))
	var out bytes.Buffer
	err := demo.Run(t.Context(), demo.Config{
		Skald:    cfg,
		Workflow: "../../../examples/order/workflow.yaml",
		Dir:      t.TempDir(),
		Out:      &out,
		Log:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("Run = %v\n%s", err, &out)
	}
	for _, want := range []string{"COMPLETED (completed), version 4", "insufficient_funds", "FAILED (compensated), version 7"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
	// The three attempts whose answers are lost are sent once more each, if it was over a kept connection.
	if !regexp.MustCompile(`ledger: 1[2-5] calls, 3 sagas, 0 violations`).MatchString(out.String()) {
		t.Errorf("the output of the ledger:\n%s", &out)
	}
}
