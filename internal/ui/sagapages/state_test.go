package sagapages

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// TestAPageThatRestsAsksSeldom checks that the longer nothing has changed, the longer a browser
// waits and the longer a drawing stays accurate enough.
func TestAPageThatRestsAsksSeldom(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		created, changed time.Duration // ago
		ended            bool
		refresh          int
		hold             time.Duration
	}{
		{time.Second, 0, false, 1, time.Second},
		{10 * time.Minute, 2 * time.Second, false, 1, 6 * time.Second},
		{10 * time.Minute, 30 * time.Second, false, 3, 6 * time.Second},
		{24 * time.Hour, time.Hour, false, 5, 30 * time.Second},
		{time.Minute, time.Second, true, 1, time.Minute},
		{24 * time.Hour, time.Hour, true, 15, time.Minute},
	} {
		s := &client.Saga{CreatedAt: now.Add(-c.created), UpdatedAt: now.Add(-c.changed)}
		if c.ended {
			s.CompletedAt = &s.UpdatedAt
		}
		got := stateOf(s, `"7-noted-2"`, now)
		if got.refresh(now) != c.refresh || !got.until.Equal(now.Add(c.hold)) {
			t.Errorf("%+v: asks after %d s, holds for %s", c, got.refresh(now), got.until.Sub(now))
		}
	}
}

// TestAPageIsUnchangedOnlyWhileItsDrawingIsGoodEnough checks that the state in the browser is valid
// until its time is over, only on tabs that show nothing but the saga, and only as created by the
// kit.
func TestAPageIsUnchangedOnlyWhileItsDrawingIsGoodEnough(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := now
	k, err := web.New(web.Config{API: http.NotFoundHandler(), Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	shown := stateOf(&client.Saga{CreatedAt: now.Add(-10 * time.Minute), UpdatedAt: now.Add(-time.Minute)}, `"7"`, now)
	sent := shown.String()
	var had state
	k.OpenPage("GET /ui/saga", func(v *web.Visit) (*web.Page, error) {
		had = hadBefore(v)
		return &web.Page{Template: "problem", State: sent, Data: client.Problem{}}, nil
	})
	ask := func(query, tag string) (state, string) {
		r := httptest.NewRequest(http.MethodGet, "/ui/saga"+query, http.NoBody)
		r.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		k.ServeHTTP(w, r)
		return had, w.Header().Get("ETag")
	}
	for query, counts := range map[string]bool{
		"": true, "?tab=steps": true, "?tab=attempts": true, "?tab=events": true, "?tab=data": true, "?tab=json": true,
		"?tab=related": false, "?tab=preview": false, "?tab=other": false, "?step=pay": false, "?attempt=x": false,
	} {
		clock = now
		_, tag := ask(query, "")
		clock = now.Add(6*time.Second - time.Millisecond)
		got, _ := ask(query, tag)
		if is := got.tag != ""; is != counts {
			t.Errorf("%q: the browser has %+v", query, got)
		}
		if counts && (got.tag != `"7"` || !got.changed.Equal(shown.changed) || got.ended || !got.until.Equal(shown.until)) {
			t.Errorf("%q: the browser has %+v, was sent %+v", query, got, shown)
		}
		clock = now.Add(6 * time.Second)
		if got, _ := ask(query, tag); got.tag != "" {
			t.Errorf("%q: after its time the browser still has %+v", query, got)
		}
	}
	clock = now
	for _, forged := range []string{`7@9999999999999@0@`, `7`, `7@x@0@`, `@@@`, `7@9999999999999@0@ended@`} {
		sent = forged
		_, tag := ask("", "")
		if got, _ := ask("", tag); forged != `7@9999999999999@0@` && got.tag != "" {
			t.Errorf("%q is taken for %+v", forged, got)
		}
		if got, _ := ask("", `"`+forged+`~000000000000000000"`); got.tag != "" {
			t.Errorf("%q, which the kit has not made, is taken for %+v", forged, got)
		}
	}
}

func TestASagaOfWhichNothingRemainsHasEndedWell(t *testing.T) {
	yes, no := true, false
	for _, tt := range []struct {
		state   client.SagaState
		clean   *bool
		tone    string
		nothing bool
	}{
		{client.SagaStateCompensating, nil, "undo", false},
		{client.SagaStateCompensated, &yes, "done", true},
		{client.SagaStateCompensated, &no, "undo", false},
		{client.SagaStateCancelled, &yes, "done", true},
		{client.SagaStateCancelled, &no, "muted", false},
		{client.SagaStateCompleted, &yes, "done", false},
		{client.SagaStateFailed, &no, "bad", false},
	} {
		d := sagaPage{Saga: &client.Saga{State: tt.state, Clean: tt.clean}}
		if d.Badge().Tone != tt.tone || d.NothingRemains() != tt.nothing {
			t.Errorf("%s, clean %v: %+v, nothing remains: %t", tt.state, tt.clean, d.Badge(), d.NothingRemains())
		}
	}
}
