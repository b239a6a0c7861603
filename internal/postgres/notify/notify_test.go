package notify_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/longpoll"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/postgres/notify"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// startNode returns a board whose messages go over a line, and the line.
func startNode(t *testing.T, dsn string) (*longpoll.Board, *notify.Line) {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	line := notify.NewLine(db)
	board := longpoll.New(longpoll.Config{Send: func(m string) { line.Send("ends", m) }, Linked: line.Open})
	line.On("ends", board.Receive)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); line.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended; db.Close() })
	return board, line
}

func told(w *longpoll.Waiter) bool {
	select {
	case <-w.Done:
		return true
	default:
		return false
	}
}

func TestAnotherNodeIsToldOfAnEnd(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	here, a := startNode(t, dsn)
	there, b := startNode(t, dsn)
	patience.Until(t, "both lines are open", func() bool { return a.Open() && b.Open() })
	k := longpoll.Key{Kind: longpoll.Saga, Tenant: uuid.New(), ID: uuid.New()}
	w := there.Watch(k)
	defer w.Stop()
	here.Ended(k, nil) // before anybody asked: it is remembered for the question
	w.Ask()
	patience.Until(t, "told", func() bool { return told(w) })
}

func TestALineOpensAgainAfterItsConnectionWasCut(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	here, a := startNode(t, dsn)
	there, b := startNode(t, dsn)
	patience.Until(t, "both lines are open", func() bool { return a.Open() && b.Open() })
	raw, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.ExecContext(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN%'`); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "the lines notice", func() bool { return !a.Open() || !b.Open() })
	patience.Until(t, "both lines are open again", func() bool { return a.Open() && b.Open() })
	k := longpoll.Key{Kind: longpoll.JobRun, Tenant: uuid.New(), ID: uuid.New()}
	w := there.Watch(k)
	defer w.Stop()
	here.Ended(k, nil)
	w.Ask()
	patience.Until(t, "told", func() bool { return told(w) })
}
