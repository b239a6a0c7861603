package redrive_test

import (
	"bytes"
	"database/sql"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/skald-saga/skald/internal/dlq"
)

// lines collects the log lines of a node.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// Redrives that cannot continue do not keep later ones from their turns, even if there are more of
// them than are worked on at once. Each is logged, and continues once its cause is fixed. For other
// operations see bulkdb.TestAnOperationThatCannotContinueDoesNotKeepTheOthers.
func TestARedriveThatCannotContinueDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	for _, action := range []dlq.RedriveAction{dlq.BulkRetry, dlq.BulkDiscard} {
		ask := func(reason string) dlq.Redrive {
			return p.redrive(p.push(1, false), func(r *dlq.Redrive) { r.Action, r.Reason = action, reason })
		}
		p.execute(`CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			RAISE EXCEPTION 'it is damaged'; END $$`)
		p.execute(`CREATE TRIGGER damaged BEFORE UPDATE ON dlq.dlq_redrives FOR EACH ROW
			WHEN (OLD.reason = 'damaged') EXECUTE FUNCTION public.refuse()`)
		var damaged []dlq.Redrive
		for range 10 {
			damaged = append(damaged, ask("damaged"))
		}
		// There are more of them than the loop reads at once.
		p.execute(`INSERT INTO dlq.dlq_redrives
			SELECT (jsonb_populate_record(d, jsonb_build_object('id', gen_random_uuid()))).*
			  FROM dlq.dlq_redrives d
			 CROSS JOIN generate_series(1, 210)
			 WHERE d.id = '` + damaged[0].ID.String() + `'`)
		healthy := []dlq.Redrive{ask("one"), ask("another")}
		var log lines
		cfg := p.config(t)
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		stop := run(t, cfg)
		for _, r := range healthy {
			p.awaitState(r, dlq.RedriveCompleted)
		}
		for _, r := range damaged {
			p.await("a damaged one to be logged", func() bool { return log.count(r.ID.String()) > 0 })
		}
		p.execute(`DROP TRIGGER damaged ON dlq.dlq_redrives`)
		var own []string
		for _, r := range damaged {
			own = append(own, "'"+r.ID.String()+"'")
		}
		p.execute(`DELETE FROM dlq.dlq_redrives WHERE reason = 'damaged' AND id NOT IN (` + strings.Join(own, ", ") + `)`)
		for _, r := range damaged {
			p.awaitState(r, dlq.RedriveCompleted)
		}
		stop()
	}
}

func (p *post) execute(statement string) {
	p.t.Helper()
	db, err := sql.Open("postgres", p.dsn)
	if err != nil {
		p.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(p.t.Context(), statement); err != nil {
		p.t.Fatal(err)
	}
}
