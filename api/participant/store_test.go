package participant_test

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/participant"
	"github.com/skald-saga/skald/internal/test/testdb"
)

func nothing(context.Context, *sql.Tx, *participant.Call) (any, error) { return nil, nil }

// called returns the status of a call of a saga.
func called(ctx context.Context, h http.Handler, saga string) int {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(`{}`))
	for name, value := range map[string]string{
		"Idempotency-Key": saga + "/x/execute", "X-Saga-Id": saga, "X-Saga-Step": "x", "X-Saga-Action": "execute",
	} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestPurgeForgetsOldSteps(t *testing.T) {
	dsn := testdb.Empty(t)
	migrate(t, dsn)
	for name, store := range map[string]participant.Store{"memory": participant.Memory(), "PostgreSQL": postgres(t, dsn)} {
		purges(t, name, store)
	}
}

func purges(t *testing.T, name string, store participant.Store) {
	t.Helper()
	now, count := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 0
	h, err := participant.New(participant.Config{Store: store, Now: func() time.Time { return now }, Execute: func(
		context.Context, *sql.Tx, *participant.Call,
	) (any, error) {
		count++
		return count, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	called(t.Context(), h, "old")
	now = now.Add(time.Hour)
	called(t.Context(), h, "young")
	n, err := store.Purge(t.Context(), now)
	if err != nil || n != 1 {
		t.Errorf("%s: %d steps purged, %v; want 1", name, n, err)
	}
	called(t.Context(), h, "young")
	called(t.Context(), h, "old")
	if count != 3 {
		t.Errorf("%s: %d calls of the function; want 3", name, count)
	}
}

// A store that cannot be reached has applied nothing, so it leaves no doubt.
func TestWithoutItsDatabaseACallIsNotApplied(t *testing.T) {
	db := open(t, testdb.Empty(t)) // without the table
	store, err := participant.SQL(db, participant.PostgreSQL)
	if err != nil {
		t.Fatal(err)
	}
	h, err := participant.New(participant.Config{Store: store, Execute: nothing})
	if err != nil {
		t.Fatal(err)
	}
	if got := called(t.Context(), h, "a"); got != http.StatusTooEarly {
		t.Errorf("without the table: %d; want 425", got)
	}
	_ = db.Close()
	if got := called(t.Context(), h, "a"); got != http.StatusTooEarly {
		t.Errorf("without the database: %d; want 425", got)
	}
}

// A repeat whose caller disconnects while it waits ends without any effect.
func TestARepeatWaitsForTheFirst(t *testing.T) {
	begun, release, count := make(chan struct{}), make(chan struct{}), 0
	h, err := participant.New(participant.Config{Store: participant.Memory(), Execute: func(
		context.Context, *sql.Tx, *participant.Call,
	) (any, error) {
		count++
		close(begun)
		<-release
		return nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan int)
	go func() { first <- called(t.Context(), h, "a") }()
	<-begun
	gone, leave := context.WithCancel(t.Context())
	leave()
	if got := called(gone, h, "a"); got != http.StatusTooEarly {
		t.Errorf("a repeat that did not wait: %d; want 425", got)
	}
	close(release)
	if got := <-first; got != http.StatusOK || count != 1 {
		t.Errorf("the first: %d, %d calls of the function", got, count)
	}
}

func TestMistakesInConfigurations(t *testing.T) {
	for name, cfg := range map[string]participant.Config{
		"no store":    {Execute: nothing},
		"no function": {Store: participant.Memory()},
		"a secret":    {Store: participant.Memory(), Execute: nothing, Secrets: []string{"hunter2"}},
	} {
		if _, err := participant.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := participant.SQL(open(t, "postgres://"), "oracle"); err == nil {
		t.Error("an unknown dialect is accepted")
	}
	for _, d := range []participant.Dialect{participant.PostgreSQL, participant.MySQL, participant.SQLite} {
		if m := participant.Migration(d); !strings.Contains(m, "CREATE TABLE skald_calls") {
			t.Errorf("%s: %q", d, m)
		}
	}
}
