package postgres_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func TestACompensationThatGivesUpLeavesALetter(t *testing.T) {
	t.Parallel()
	k := letters(t)
	run := k.play(k.begun(1)[0], refusal("it is gone"))
	l := k.letter(run.DeadLetter())
	switch {
	case run.State != saga.Failed || l.Status != dlq.Pending || l.NextRetryAt != nil || l.RetryCount != 0 || l.MaxRetries != 3:
		t.Errorf("the saga is %s, its letter %+v", run.State, l)
	case l.Source != dlq.FromSaga || l.OriginalTopic != "saga.order.reserve.compensate" || l.Target.Kind != dlq.ToSaga || l.TenantID != big:
		t.Errorf("%+v", l)
	case l.Link != dlq.Link{SagaID: run.ID, StepName: "reserve", Action: "COMPENSATE"}:
		t.Errorf("it stands for %+v", l.Link)
	case !strings.Contains(string(l.Content.Payload), `"action":"compensate"`) || l.Failure.Type != "http_409" || l.Failure.Class != dlq.Permanent:
		t.Errorf("payload %s, failure %+v", l.Content.Payload, l.Failure)
	}
	if n := ask[int](t, k.db, `SELECT received FROM dlq.dlq_groups WHERE tenant_id = $1 AND fingerprint = $2`, big, l.Fingerprint); n != 1 {
		t.Errorf("its group has received %d letters", n)
	}
}

func TestARetryOfALetterIsTheSagasToEnd(t *testing.T) {
	t.Parallel()
	k := letters(t)
	run := k.play(k.begun(1)[0], refusal("it is gone"))
	id := run.DeadLetter()
	for n := 1; n <= 3; n++ {
		run = k.play(run, resume())
		l := k.letter(id)
		if l.Status != dlq.Retrying || l.Token == uuid.Nil || !l.LeaseUntil.After(time.Now()) || run.DeadLetter() != id {
			t.Fatalf("retry %d: %+v", n, l)
		}
		run = k.play(run, refusal("it is still gone"))
		l = k.letter(id)
		status, resolution := dlq.Pending, dlq.Resolution("")
		if n == 3 {
			status, resolution = dlq.Dead, dlq.Exhausted
		}
		if l.Status != status || l.Resolution != resolution || l.RetryCount != n || run.DeadLetter() != id || !strings.Contains(l.Failure.Message, "still") {
			t.Fatalf("after retry %d it is %s %s, %d retries: %+v", n, l.Status, l.Resolution, l.RetryCount, l.Failure)
		}
	}
	run = k.play(run, resume(), done()) // forced
	l := k.letter(id)
	if l.Status != dlq.Resolved || l.Resolution != dlq.Confirmed || l.RetryCount != 3 || run.State != saga.Compensated || !*run.Clean || run.DeadLetter() != uuid.Nil {
		t.Errorf("the letter is %s %s, the saga %s", l.Status, l.Resolution, run.State)
	}
	if got := k.attempts(id); got != "1 FAILED, 2 FAILED, 3 FAILED, 4 ACKNOWLEDGED" {
		t.Errorf("its retries: %s", got)
	}
	if n := ask[int](t, k.db, `SELECT count(*) FROM dlq.dlq_groups`); n != 2 { // gone, still gone
		t.Errorf("%d groups; want one for each error", n)
	}
}

func TestALetterThatWasDealtWithByHand(t *testing.T) {
	t.Parallel()
	k := letters(t)
	for _, running := range []bool{false, true} {
		run := k.play(k.begun(1)[0], refusal("it is gone"))
		id := run.DeadLetter()
		if running {
			run = k.play(run, resume(), saga.FailureForced{By: "op"})
			if l := k.letter(id); l.Status != dlq.Pending || l.RetryCount != 0 || run.DeadLetter() != id {
				t.Fatalf("failed by force: the letter is %s, %d retries", l.Status, l.RetryCount)
			}
		}
		run = k.play(run, orderUndone())
		l := k.letter(id)
		if l.Status != dlq.Resolved || l.Resolution != dlq.Manual || run.State != saga.Compensated || !*run.Clean {
			t.Errorf("the letter is %s %s, the saga %s, clean %v", l.Status, l.Resolution, run.State, *run.Clean)
		}
		if got, want := k.attempts(id), map[bool]string{true: "1 WITHDRAWN"}[running]; got != want {
			t.Errorf("its retries: %s; want %s", got, want)
		}
		logs, err := k.sagas.StepLogs(t.Context(), big, run.ID)
		last := logs[slices.IndexFunc(logs, func(g saga.StepLog) bool { return g.Status == saga.LogSkipped })]
		if err != nil || last.Action != saga.Compensate || string(last.Response) != `{"by":"carla","reason":"called the stock"}` {
			t.Errorf("its log %+v, %s, %v", last, last.Response, err)
		}
	}
}

// What is not there any more when a compensation gives up once more gets a
// letter anew, and the saga names that.
func TestALetterThatIsGoneIsReplaced(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]string{
		"deleted":  `DELETE FROM dlq.dlq_messages WHERE id = $1`,
		"resolved": `UPDATE dlq.dlq_messages SET status = 'RESOLVED', resolution = 'MANUAL', terminal_at = now(), retry_token = NULL, retry_lease_until = NULL WHERE id = $1`,
		"archived": `SELECT dlq.archive_batch(0, 0, 10) FROM (SELECT $1::uuid) AS x`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := letters(t)
			run := k.play(k.begun(1)[0], refusal("no"))
			first := run.DeadLetter()
			if name == "archived" {
				execute(t, k.db, `UPDATE dlq.dlq_messages SET status = 'DEAD', resolution = 'DISCARDED', terminal_at = now() - interval '1 day' WHERE id = $1`, first)
			}
			execute(t, k.db, gone, first)
			run = k.play(run, resume(), refusal("no"))
			stored, err := k.sagas.Get(t.Context(), big, run.ID)
			if err != nil || run.DeadLetter() == first || stored.DeadLetter() != run.DeadLetter() {
				t.Fatalf("the letter %s was %s; the saga names %s, in memory %s, %v", first, name, stored.DeadLetter(), run.DeadLetter(), err)
			}
			if l := k.letter(run.DeadLetter()); l.Status != dlq.Pending || l.RetryCount != 0 {
				t.Errorf("%+v", l)
			}
			run = k.play(run, resume(), done())
			if l := k.letter(stored.DeadLetter()); l.Resolution != dlq.Confirmed || run.State != saga.Compensated {
				t.Errorf("the letter is %s, the saga %s", l.Resolution, run.State)
			}
		})
	}
}

func TestAChangeThatIsNotWrittenTellsNothing(t *testing.T) {
	t.Parallel()
	k := letters(t)
	runs := k.begun(3)
	batch := make([]saga.Change, 3)
	for i := range runs {
		batch[i] = applied(runs[i], refusal("no"))
	}
	k.play(runs[1], saga.SuspendRequested{}) // faster
	batch[2] = applied(runs[2], done())      // and one that has no letter
	errs, err := k.sagas.Commit(t.Context(), batch)
	if err != nil || errs[0] != nil || !fault.IsCode(errs[1], saga.CodeStale) || errs[2] != nil {
		t.Fatal(errs, err)
	}
	if n := ask[int](t, k.db, `SELECT count(*) FROM dlq.dlq_messages`); n != 1 || k.letter(batch[0].After.DeadLetter()).Link.SagaID != runs[0].ID {
		t.Errorf("%d letters", n)
	}
	again := []saga.Change{batch[0]}
	if errs, err := k.sagas.Commit(t.Context(), again); err != nil || !fault.IsCode(errs[0], saga.CodeStale) {
		t.Errorf("written twice: %v, %v", errs, err)
	}
	if n := ask[int](t, k.db, `SELECT count(*) FROM dlq.dlq_messages`); n != 1 {
		t.Errorf("%d letters after the same change once more", n)
	}
}

func TestThePolicyOfATopicSaysHowOftenALetterIsRetried(t *testing.T) {
	t.Parallel()
	k := letters(t)
	for _, tt := range []struct {
		topic      string
		retries    int
		status     dlq.Status
		resolution dlq.Resolution
	}{
		{"", 7, dlq.Pending, ""},
		{"saga.order.reserve.compensate", 0, dlq.Dead, dlq.Exhausted},
	} {
		execute(t, k.db, `
			INSERT INTO dlq.dlq_policies (tenant_id, topic, version, max_retries, backoff, auto_retry, ordered, retention_days, archive_days, max_generations, updated_at)
			VALUES ($1, $2, 1, $3, '{}', true, false, 30, 365, 3, now())`, big, tt.topic, tt.retries)
		run := k.play(k.begun(1)[0], refusal("no"))
		if l := k.letter(run.DeadLetter()); l.MaxRetries != tt.retries || l.Status != tt.status || l.Resolution != tt.resolution {
			t.Errorf("policy of %q: %d retries, %s %s", tt.topic, l.MaxRetries, l.Status, l.Resolution)
		}
		if run = k.play(run, resume(), done()); run.State != saga.Compensated {
			t.Errorf("resumed, the saga is %s", run.State)
		}
	}
}

// Letters cost changes without any nothing.
func TestOrdinaryChangesKnowNothingOfLetters(t *testing.T) {
	t.Parallel()
	for _, query := range []string{postgres.CommitSagas, postgres.CommitOperated} {
		if strings.Contains(query, "dlq") {
			t.Errorf("it does: %s", query)
		}
	}
}

func TestLettersOfSagasAreSealed(t *testing.T) {
	t.Parallel()
	db := connectWith(t, testdb.DSN(t), keyring(t, keyOne))
	registered(t, db)
	k := &lettered{t, db.SQL(), postgres.NewSagas(db), postgres.NewLetters(db, dlq.DefaultPolicy)}
	batch := unkeyed()
	batch[0].Payload = json.RawMessage(`{"secret":"` + canary + `"}`)
	if r, err := k.sagas.Create(t.Context(), batch); err != nil || r[0].Created != saga.Stored {
		t.Fatal(r, err)
	}
	run := k.play(saga.NewInstance(batch[0].Saga, order), done(), refusal("no"), refusal(canary), resume(), refusal("again "+canary))
	if text := dump(t, k.db); strings.Contains(text, canary) || !strings.Contains(text, "saga.order.reserve.compensate") {
		t.Error("the dump shows what somebody said, or no letter")
	}
	l := k.letter(run.DeadLetter())
	if !strings.Contains(string(l.Content.Payload), canary) || l.RetryCount != 1 || !strings.HasSuffix(l.Failure.Message, "http_409") {
		t.Errorf("payload %s, %+v", l.Content.Payload, l.Failure)
	}
}
