package joblog_test

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
)

// scratch is the directory for all tests of this process.
var scratch string

var discard = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "skald-joblog-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}
