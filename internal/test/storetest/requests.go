package storetest

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// requests: whether a store keeps a request or rebuilds it from other data, a log shows what was
// sent.
var requests = []contract{
	{"a log shows what was sent, whether the saga is live, archived or restored", requestsAsSent},
}

// placeOf names an attempt in the same way as Env.Sent.
func placeOf(step int, a saga.Action, attempt int) string {
	return fmt.Sprintf("%d %s %d", step, a, attempt)
}

// lookAlikes returns events with contents that look like the ones a store marks as its own.
func (f *fixture) lookAlikes() []saga.Event {
	return []saga.Event{
		f.done(`{"$skald_raw":{"a":1}}`), f.done(`{"$skald_enc":"x","b":[1.50]}`), f.refused(``), f.done(`["$skald_raw"]`),
	}
}

func requestsAsSent(f *fixture) {
	all := f.scenarios()
	maps.Copy(all, f.interventions())
	all["answers that look like the store's marks"] = f.lookAlikes()
	for name, events := range all {
		for what, payload := range map[string]string{
			"": `{"order":1.50,"é":[null,{"sameKey":{}}]}`, ", no payload": ``, ", a mark as payload": `{"$skald_raw":{"$skald_x":1}}`,
		} {
			f.t.Run(name+what, func(t *testing.T) {
				f := f.in(t)
				run := f.stored(f.owned(f.owner, func(n *saga.NewSaga) { n.Payload = raw(payload) }))[0]
				sent := map[string]string{}
				for _, e := range events {
					run = f.playSent(run, e, sent)
				}
				f.wantSent(run.ID, sent, false)
				if !run.State.Terminal() || f.load(run.ID).Saga.NeedsAttention {
					return
				}
				if f.archive(f.everythingEnded()) == 0 {
					t.Fatal("nothing was archived")
				}
				f.wantSent(run.ID, sent, true)
				if err := f.restore(run.ID); err != nil {
					t.Fatal(err)
				}
				f.wantSent(run.ID, sent, false)
			})
		}
	}
}

// playSent plays an event. An answer becomes an answer to the call in flight, whose body it adds to
// sent.
func (f *fixture) playSent(run saga.Instance, e saga.Event, sent map[string]string) saga.Instance {
	f.t.Helper()
	switch event := e.(type) {
	case saga.Answered:
		call := run.Call(saga.Defaults{})
		event.Request, event.Parts = call.Body, call.Parts
		sent[placeOf(call.Index, call.Action, call.Attempt)] = canonical(call.Body)
		patched := run.Interventions != nil && run.Interventions.Steps[call.Index].Input != nil
		if (call.Parts == nil) != patched {
			f.t.Errorf("%s of step %d has the parts %v; its input was patched: %v", call.Action, call.Index, call.Parts, patched)
		}
		e = event
	case saga.RetryRequested:
		event.Logs = f.logsOf(run)
		e = event
	}
	run = f.play(run, e)
	l := f.load(run.ID).Saga // the store sets these from its own clock
	run.TimeoutAt, run.CompensationTimeoutAt, run.SuspendedAt = l.TimeoutAt, l.CompensationTimeoutAt, l.SuspendedAt
	return run
}

// wantSent compares the requests in a saga's logs with those that were sent, for every way of
// reading them.
func (f *fixture) wantSent(id uuid.UUID, sent map[string]string, archived bool) {
	f.t.Helper()
	read := func(want saga.Logs) []saga.StepLog {
		f.t.Helper()
		var logs []saga.StepLog
		var err error
		if archived {
			var a saga.Archived
			a, err = f.Archive.GetArchived(f.t.Context(), f.tenant.ID, id, want)
			logs = a.Logs
		} else {
			logs, err = f.Sagas.StepLogs(f.t.Context(), f.tenant.ID, id, want)
		}
		if err != nil {
			f.t.Fatal(err)
		}
		return logs
	}
	check := func(how string, logs []saga.StepLog, whole int) {
		f.t.Helper()
		if len(logs) != whole {
			f.t.Errorf("%s: %d logs, want %d", how, len(logs), whole)
		}
		for _, l := range logs {
			got, want := string(l.Request), sent[placeOf(l.StepIndex, l.Action, l.Attempt)]
			if got != "" && f.Sent == nil { // a store without Env.Sent keeps it as it was sent
				got = canonical(l.Request)
			}
			if got != want {
				f.t.Errorf("%s, archived %v: %s %d of step %d:\nsent %s\nread %s", how, archived, l.Action, l.Attempt, l.StepIndex, want, got)
			}
		}
	}
	logs := read(saga.Logs{})
	check("all logs", logs, len(logs))
	for _, l := range logs {
		check("by its id", read(saga.Logs{IDs: []uuid.UUID{l.ID}}), 1)
	}
	if !archived {
		check("loaded", f.load(id).Logs, len(logs))
	}
	if f.Sent == nil {
		return
	}
	inSQL := f.Sent(f.t, f.tenant.ID, id)
	if len(inSQL) != len(logs) && inSQL != nil {
		f.t.Errorf("by SQL, archived %v: %d logs, want %d", archived, len(inSQL), len(logs))
	}
	for place, request := range inSQL {
		if got := canonical(raw(request)); got != sent[place] && (request != "" || sent[place] != "") {
			f.t.Errorf("by SQL, archived %v: %s:\nsent %s\nread %s", archived, place, sent[place], got)
		}
	}
}
