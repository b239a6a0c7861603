package storetest

import (
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/saga"
)

var restores = []contract{
	{"a restored saga is live again and unchanged", restoreAsItWas},
	{"a restored saga stays live for a whole retention period and is then archived again", restoreStays},
	{"a saga that is not in the tenant's archive cannot be restored", restoreNothing},
	{"a restore stores its event and its idempotency key, and a taken key restores nothing", restoreKeys},
	{"of several concurrent restores, one succeeds", restoreOnce},
}

func (f *fixture) restore(id uuid.UUID) error {
	return f.Archive.Restore(f.t.Context(), f.restoration(id))
}

// restoration returns a request to restore a saga whose revision the caller doesn't know.
func (f *fixture) restoration(id uuid.UUID) saga.Restoration {
	s := saga.Saga{ID: id, Tenant: f.tenant}
	return saga.Restoration{
		TenantID: f.tenant.ID,
		SagaID:   id,
		Event:    s.Restored("alice", "r1", "ann", "asked for", f.now()),
	}
}

// restored counts the restore events of a saga.
func (f *fixture) restored(id uuid.UUID) int {
	f.t.Helper()
	f.Settle(f.t)
	events, _, err := f.Trail.Events(f.t.Context(), f.tenant.ID, id, trail.EventFilter{}, false, 0, 100)
	if err != nil {
		f.t.Fatal(err)
	}
	n := 0
	for _, e := range events {
		if e.Type == eventtype.SagaRestored {
			n++
			if e.Actor != "alice" || e.RequestID != "r1" || string(e.Data) != `{"by":"ann","reason":"asked for"}` {
				f.t.Errorf("event %+v, data %s", e, e.Data)
			}
		}
	}
	return n
}

func restoreAsItWas(f *fixture) {
	for state := range f.endings() {
		if state == saga.Failed { // it needs attention
			continue
		}
		run := f.ended(state, time.Hour, everything)
		before, logs := f.load(run.ID).Saga, f.logsOf(run)
		f.archive(f.everythingEnded())
		if err := f.restore(run.ID); err != nil {
			f.t.Fatalf("restore: %v", err)
		}
		if diff := cmp.Diff(before, f.load(run.ID).Saga); diff != "" {
			f.t.Errorf("%s (-before +restored):\n%s", state, diff)
		}
		if diff := cmp.Diff(logs, f.logsOf(run)); diff != "" {
			f.t.Errorf("%s: logs (-before +restored):\n%s", state, diff)
		}
		_, err := f.Archive.GetArchived(f.t.Context(), f.tenant.ID, run.ID, saga.Logs{})
		f.wantFault(err, fault.NotFound, saga.CodeNotFound)
		again := f.unowned()
		again.ID = run.ID
		if r := f.create(again)[0]; r.Created != saga.IDTaken {
			f.t.Errorf("%s: its id can be used again: %d", state, r.Created)
		}
	}
}

func restoreStays(f *fixture) {
	all := map[string]saga.Instance{
		"completed": f.ended(saga.Completed, 100*time.Hour),
		"cancelled": f.ended(saga.Cancelled, 100*time.Hour),
	}
	hour := saga.Expiry{Default: saga.Retention{Completed: time.Hour, Failed: time.Hour}}
	f.archive(hour)
	f.wantArchived(all, "completed", "cancelled")
	restored := f.now()
	for _, run := range all {
		if err := f.restore(run.ID); err != nil {
			f.t.Fatalf("restore: %v", err)
		}
	}
	f.archive(hour)
	f.archive(saga.Expiry{Before: restored.Add(-time.Minute)}) // it was not live before that time
	f.wantArchived(all)
	f.archive(f.everythingEnded())
	f.wantArchived(all, "completed", "cancelled")
	if err := f.restore(all["completed"].ID); err != nil { // it can be restored any number of times
		f.t.Errorf("restore again: %v", err)
	}
}

func restoreNothing(f *fixture) {
	live, archived := f.into(saga.Running), f.ended(saga.Completed, time.Hour)
	f.archive(f.everythingEnded())
	neighbour := begin(f.t, f.Env)
	f.wantFault(neighbour.restore(archived.ID), fault.NotFound, saga.CodeNotFound)
	f.wantFault(f.restore(newID()), fault.NotFound, saga.CodeNotFound)
	f.unchanged(live.ID, func() { f.wantFault(f.restore(live.ID), fault.NotFound, saga.CodeNotFound) })
	f.getArchived(archived.ID)
}

func restoreKeys(f *fixture) {
	a, b := f.ended(saga.Completed, time.Hour), f.ended(saga.Completed, time.Hour)
	f.archive(f.everythingEnded())
	key := f.key("restore", "h")
	first, second := f.restoration(a.ID), f.restoration(b.ID)
	first.Key, second.Key = key, key
	if err := f.Archive.Restore(f.t.Context(), first); err != nil {
		f.t.Fatalf("restore: %v", err)
	}
	if state, id, err := f.Sagas.Key(f.t.Context(), *key); err != nil || state != saga.KeySame || id != a.ID {
		f.t.Errorf("the key is %d for %s, %v", state, id, err)
	}
	err := f.Archive.Restore(f.t.Context(), second)
	f.wantFault(err, fault.Conflict, idempotency.CodeUsed)
	f.getArchived(b.ID)
	if first, second := f.restored(a.ID), f.restored(b.ID); first != 1 || second != 0 {
		f.t.Errorf("%d and %d events of restores, want 1 and 0", first, second)
	}
}

func restoreOnce(f *fixture) {
	for range 5 {
		run := f.ended(saga.Completed, time.Hour)
		logs := f.logsOf(run)
		f.archive(f.everythingEnded())
		var restored atomic.Int64
		together(8, func(int) {
			switch err := f.restore(run.ID); {
			case err == nil:
				restored.Add(1)
			case !fault.IsCode(err, saga.CodeNotFound):
				f.t.Errorf("restore: %v", err)
			}
		})
		if diff := cmp.Diff(logs, f.logsOf(run)); restored.Load() != 1 || diff != "" {
			f.t.Errorf("%d restores succeeded, want 1; logs (-before +after):\n%s", restored.Load(), diff)
		}
	}
}
