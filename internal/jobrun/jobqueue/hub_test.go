package jobqueue

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/postgres/notify"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestOtherNodesHearOfRunsThatMayBeClaimed(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	type hint struct {
		tenant uuid.UUID
		queue  string
	}
	heard := map[string]chan hint{"here": make(chan hint, 1000), "there": make(chan hint, 1000)}
	nodes := map[string]*Hub{}
	for name, c := range heard {
		db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
		if err != nil {
			t.Fatal(err)
		}
		line := notify.NewLine(db)
		hub := NewHub(line)
		nodes[name] = hub
		hub.OnAdmitted(func(tenant uuid.UUID, queue string) { c <- hint{tenant, queue} })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			line.Run(ctx)
		}()
		t.Cleanup(func() { stop(); <-ended; db.Close() })
	}
	want := hint{uuid.New(), "mail:urgent"}
	got := map[string]bool{}
	patience.Until(t, "both nodes hear of it", func() bool {
		nodes["here"].Admitted(want.tenant, want.queue) // repeated until the other node listens
		for name, c := range heard {
			select {
			case h := <-c:
				if h != want {
					t.Fatalf("%s heard %v", name, h)
				}
				got[name] = true
			default:
			}
		}
		return len(got) == 2
	})
}

func TestOtherNodesHearThatTheLeaderIsWanted(t *testing.T) {
	t.Parallel()
	dsn := testdb.DSN(t)
	heard := map[string]chan struct{}{"here": make(chan struct{}, 1), "there": make(chan struct{}, 1)}
	nodes := map[string]*Hub{}
	for name, c := range heard {
		db, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
		if err != nil {
			t.Fatal(err)
		}
		line := notify.NewLine(db)
		hub := NewHub(line)
		nodes[name] = hub
		hub.OnAdmitted(func(uuid.UUID, string) { t.Error("heard of a queue") })
		hub.OnLeaderWanted(func() {
			select {
			case c <- struct{}{}:
			default:
			}
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			line.Run(ctx)
		}()
		t.Cleanup(func() { stop(); <-ended; db.Close() })
	}
	got := map[string]bool{}
	patience.Until(t, "both nodes hear of it", func() bool {
		nodes["here"].WantLeader() // repeated until the other node listens
		for name, c := range heard {
			select {
			case <-c:
				got[name] = true
			default:
			}
		}
		return len(got) == 2
	})
}
