package sagadb_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestACompensationThatGivesUpLeavesALetter(t *testing.T) {
	t.Parallel()
	k := pgtest.Letters(t)
	run := k.Play(k.Begun(1)[0], pgtest.Refusal("it is gone"))
	l := k.Letter(run.DeadLetter())
	switch {
	case run.State != saga.Failed || l.Status != dlq.Pending || l.NextRetryAt != nil || l.RetryCount != 0 ||
		l.MaxRetries != 3:
		t.Errorf("the saga is %s, its letter %+v", run.State, l)
	case l.Source != dlq.FromSaga || l.OriginalTopic != "saga.order.reserve.compensate" || l.Target.Kind != dlq.ToSaga || l.TenantID != pgtest.Big:
		t.Errorf("%+v", l)
	case l.Link != dlq.Link{SagaID: run.ID, StepName: "reserve", Action: "COMPENSATE"}:
		t.Errorf("the letter links to %+v", l.Link)
	case !strings.Contains(string(l.Content.Payload), `"action":"compensate"`) || l.Failure.Type != "http_409" ||
		l.Failure.Class != dlq.Permanent:
		t.Errorf("payload %s, failure %+v", l.Content.Payload, l.Failure)
	}
	if n := pgtest.Ask[int](t, k.DB, `SELECT received FROM dlq.dlq_groups WHERE tenant_id = $1 AND fingerprint = $2`, pgtest.Big, l.Fingerprint); n != 1 {
		t.Errorf("its group has received %d letters", n)
	}
}

func TestTheSagaEndsTheRetryOfItsLetter(t *testing.T) {
	t.Parallel()
	k := pgtest.Letters(t)
	run := k.Play(k.Begun(1)[0], pgtest.Refusal("it is gone"))
	id := run.DeadLetter()
	for n := 1; n <= 3; n++ {
		run = k.Play(run, pgtest.Resume())
		l := k.Letter(id)
		if l.Status != dlq.Retrying || l.Token == uuid.Nil || !l.LeaseUntil.After(time.Now()) || run.DeadLetter() != id {
			t.Fatalf("retry %d: %+v", n, l)
		}
		run = k.Play(run, pgtest.Refusal("it is still gone"))
		l = k.Letter(id)
		status, resolution := dlq.Pending, dlq.Resolution("")
		if n == 3 {
			status, resolution = dlq.Dead, dlq.Exhausted
		}
		want := l
		want.Status, want.Resolution, want.RetryCount = status, resolution, n
		if diff := cmp.Diff(want, l); diff != "" {
			t.Fatalf("after retry %d (-want +got):\n%s", n, diff)
		}
		if run.DeadLetter() != id || !strings.Contains(l.Failure.Message, "still") {
			t.Fatalf("after retry %d: %+v", n, l.Failure)
		}
	}
	run = k.Play(run, pgtest.Resume(), pgtest.Done()) // forced
	l := k.Letter(id)
	want := l
	want.Status, want.Resolution, want.RetryCount = dlq.Resolved, dlq.Confirmed, 3
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("the letter (-want +got):\n%s", diff)
	}
	if run.State != saga.Compensated || !*run.Clean || run.DeadLetter() != uuid.Nil {
		t.Errorf("the saga is %s, clean %v, with letter %s", run.State, *run.Clean, run.DeadLetter())
	}
	if got := k.Attempts(id); got != "1 FAILED, 2 FAILED, 3 FAILED, 4 ACKNOWLEDGED" {
		t.Errorf("its retries: %s", got)
	}
	if n := pgtest.Ask[int](t, k.DB, `SELECT count(*) FROM dlq.dlq_groups`); n != 2 { // gone and still gone
		t.Errorf("%d groups; want one for each error", n)
	}
}

func TestALetterWhoseStepAnOperatorCompensatedByHand(t *testing.T) {
	t.Parallel()
	k := pgtest.Letters(t)
	for _, running := range []bool{false, true} {
		run := k.Play(k.Begun(1)[0], pgtest.Refusal("it is gone"))
		id := run.DeadLetter()
		if running {
			run = k.Play(run, pgtest.Resume(), saga.FailureForced{By: "op"})
			if l := k.Letter(id); l.Status != dlq.Pending || l.RetryCount != 0 || run.DeadLetter() != id {
				t.Fatalf("failed by force: the letter is %s, %d retries", l.Status, l.RetryCount)
			}
		}
		run = k.Play(run, pgtest.OrderUndone())
		l := k.Letter(id)
		if l.Status != dlq.Resolved || l.Resolution != dlq.Manual || run.State != saga.Compensated || !*run.Clean {
			t.Errorf("the letter is %s %s, the saga %s, clean %v", l.Status, l.Resolution, run.State, *run.Clean)
		}
		if got, want := k.Attempts(id), map[bool]string{true: "1 WITHDRAWN"}[running]; got != want {
			t.Errorf("its retries: %s; want %s", got, want)
		}
		logs, err := k.Sagas.StepLogs(t.Context(), pgtest.Big, run.ID, saga.Logs{})
		last := logs[slices.IndexFunc(logs, func(g saga.StepLog) bool { return g.Status == saga.LogSkipped })]
		if err != nil || last.Action != saga.Compensate || string(last.Response) != `{"by":"carla","reason":"called the stock"}` {
			t.Errorf("its log %+v, %s, %v", last, last.Response, err)
		}
	}
}

// If the letter no longer exists when a compensation gives up again, the saga gets a new letter and
// refers to it.
func TestALetterThatIsGoneIsReplaced(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]string{
		"deleted":  `DELETE FROM dlq.dlq_messages WHERE id = $1`,
		"resolved": `UPDATE dlq.dlq_messages SET status = 'RESOLVED', resolution = 'MANUAL', terminal_at = now(), retry_token = NULL, retry_lease_until = NULL WHERE id = $1`,
		"archived": `SELECT dlq.archive_batch(0, 0, 10) FROM (SELECT $1::uuid) AS x`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := pgtest.Letters(t)
			run := k.Play(k.Begun(1)[0], pgtest.Refusal("no"))
			first := run.DeadLetter()
			if name == "archived" {
				pgtest.Execute(t, k.DB, `UPDATE dlq.dlq_messages SET status = 'DEAD', resolution = 'DISCARDED', terminal_at = now() - interval '1 day' WHERE id = $1`, first)
			}
			pgtest.Execute(t, k.DB, gone, first)
			run = k.Play(run, pgtest.Resume())
			change := pgtest.Applied(run, pgtest.Refusal("no"))
			pgtest.Commit(t, k.Sagas, []saga.Change{change})
			if change.After.DeadLetter() != first {
				t.Error("the store modified the change that was passed to it")
			}
			loaded, err := k.Sagas.Load(t.Context(), []saga.Ref{run.Ref()})
			if err != nil || len(loaded) != 1 || loaded[0].Saga.DeadLetter() != change.Letter.Letter.ID {
				t.Fatalf("the letter %s was %s, the new one is %s: %+v, %v", first, name, change.Letter.Letter.ID, loaded, err)
			}
			run = saga.Rebuild(loaded[0].Saga, run.Def, loaded[0].Logs)
			if l := k.Letter(run.DeadLetter()); l.Status != dlq.Pending || l.RetryCount != 0 {
				t.Errorf("%+v", l)
			}
			run = k.Play(run, pgtest.Resume(), pgtest.Done())
			if l := k.Letter(change.Letter.Letter.ID); l.Resolution != dlq.Confirmed || run.State != saga.Compensated {
				t.Errorf("the letter is %s, the saga %s", l.Resolution, run.State)
			}
		})
	}
}

func TestAChangeThatIsNotWrittenLeavesLettersAlone(t *testing.T) {
	t.Parallel()
	k := pgtest.Letters(t)
	runs := k.Begun(3)
	batch := make([]saga.Change, 3)
	for i := range runs {
		batch[i] = pgtest.Applied(runs[i], pgtest.Refusal("no"))
	}
	k.Play(runs[1], saga.SuspendRequested{})          // faster
	batch[2] = pgtest.Applied(runs[2], pgtest.Done()) // and a saga that has no letter
	errs, err := k.Sagas.Commit(t.Context(), batch)
	if err != nil || errs[0] != nil || !fault.IsCode(errs[1], saga.CodeStale) || errs[2] != nil {
		t.Fatal(errs, err)
	}
	if n := pgtest.Ask[int](t, k.DB, `SELECT count(*) FROM dlq.dlq_messages`); n != 1 || k.Letter(batch[0].After.DeadLetter()).Link.SagaID != runs[0].ID {
		t.Errorf("%d letters", n)
	}
	again := []saga.Change{batch[0]}
	if errs, err := k.Sagas.Commit(t.Context(), again); err != nil || !fault.IsCode(errs[0], saga.CodeStale) {
		t.Errorf("written twice: %v, %v", errs, err)
	}
	if n := pgtest.Ask[int](t, k.DB, `SELECT count(*) FROM dlq.dlq_messages`); n != 1 {
		t.Errorf("%d letters after the same change once more", n)
	}
}

func TestTheTopicPolicyLimitsTheRetriesOfALetter(t *testing.T) {
	t.Parallel()
	k := pgtest.Letters(t)
	for _, tt := range []struct {
		topic      string
		retries    int
		status     dlq.Status
		resolution dlq.Resolution
	}{
		{"", 7, dlq.Pending, ""},
		{"saga.order.reserve.compensate", 0, dlq.Dead, dlq.Exhausted},
	} {
		pgtest.Execute(t, k.DB, `
			INSERT INTO dlq.dlq_policies (tenant_id, topic, version, max_retries, backoff, auto_retry, ordered, retention_days, archive_days, max_generations, updated_at)
			VALUES ($1, $2, 1, $3, '{}', true, false, 30, 365, 3, now())`, pgtest.Big, tt.topic, tt.retries)
		run := k.Play(k.Begun(1)[0], pgtest.Refusal("no"))
		if l := k.Letter(run.DeadLetter()); l.MaxRetries != tt.retries || l.Status != tt.status ||
			l.Resolution != tt.resolution {
			t.Errorf("policy of %q: %d retries, %s %s", tt.topic, l.MaxRetries, l.Status, l.Resolution)
		}
		if run = k.Play(run, pgtest.Resume(), pgtest.Done()); run.State != saga.Compensated {
			t.Errorf("resumed, the saga is %s", run.State)
		}
	}
}

// Changes without letters must not incur the cost of letters.
func TestOrdinaryChangesDoNotTouchLetters(t *testing.T) {
	t.Parallel()
	for _, query := range []string{sagadb.CommitSagas, sagadb.CommitOperated, sagadb.CommitOnward, sagadb.CommitDriven} {
		if strings.Contains(query, "dlq") {
			t.Errorf("the statement mentions letters: %s", query)
		}
	}
}

func TestLettersOfSagasAreSealed(t *testing.T) {
	t.Parallel()
	db := pgtest.ConnectWith(t, testdb.DSN(t), pgtest.Keyring(t, pgtest.KeyOne))
	pgtest.Registered(t, db)
	k := &pgtest.Lettered{T: t, DB: db.SQL(), Sagas: sagadb.NewSagas(db), Letters: dlqdb.NewLetters(db, dlq.DefaultPolicy)}
	batch := pgtest.Unkeyed()
	batch[0].Payload = json.RawMessage(`{"secret":"` + pgtest.Canary + `"}`)
	if r, err := k.Sagas.Create(t.Context(), batch); err != nil || r[0].Created != saga.Stored {
		t.Fatal(r, err)
	}
	run := k.Play(saga.NewInstance(batch[0].Saga, pgtest.Order), pgtest.Done(), pgtest.Refusal("no"),
		pgtest.Refusal(pgtest.Canary), pgtest.Resume(), pgtest.Refusal("again "+pgtest.Canary))
	if text := dump(t, k.DB); strings.Contains(text, pgtest.Canary) || !strings.Contains(text, "saga.order.reserve.compensate") {
		t.Error("the dump contains plaintext, or no letter")
	}
	l := k.Letter(run.DeadLetter())
	if !strings.Contains(string(l.Content.Payload), pgtest.Canary) || l.RetryCount != 1 ||
		!strings.HasSuffix(l.Failure.Message, "http_409") {
		t.Errorf("payload %s, %+v", l.Content.Payload, l.Failure)
	}
}
