package registryapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/httpapi"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/test/apitest"
)

const path = "/api/v1/participants"

func TestAParticipantIsRegisteredChangedHeldReleasedAndDeleted(t *testing.T) {
	e := apitest.NewEdge(t)
	send := func(method, at, body string, header ...string) (p client.Participant) {
		t.Helper()
		r := e.Send(method, path+at, body, header...)
		r.Reads(http.StatusOK, &p)
		return p
	}
	full := `{"base_url":"HTTPS://Card.example:443/v1/","headers":{"Authorization":"not a secret"},"timeout_ms":700,` +
		`"max_in_flight":3,"outage":{"failure_ratio":0.25,"release":{"factor":1.5}}}`
	p := send("PUT", "/card", full, "If-Match", `"0"`)
	if p := send("PUT", "/new?dry_run=true", `{"base_url":"http://new.example"}`); p.Version != 0 || p.Changes == nil ||
		len(*p.Changes) == 0 {
		t.Errorf("dry run: %+v", p)
	}
	e.Send("GET", path+"/new", "").Wants(http.StatusNotFound, "SAGA_PARTICIPANT_NOT_FOUND")
	want := client.ParticipantOutage{
		FailureRatio: new(0.25), MinCalls: new(int64(20)), WindowMS: new(int64(30_000)), CanaryEveryMS: new(int64(10_000)),
		Release: &client.ParticipantRelease{StartPerS: new(10.0), Factor: new(1.5)},
	}
	if diff := cmp.Diff(want, p.Outage); diff != "" || p.BaseURL != "https://card.example/v1" || p.State != "OPEN" ||
		p.Version != 1 || *p.TimeoutMS != 700 || *p.MaxInFlight != 3 || p.Headers["Authorization"] != "not a secret" {
		t.Errorf("registered %+v (-want +got):\n%s", p, diff)
	}
	e.Send("PUT", path+"/card", full, "If-Match", `"0"`).Wants(http.StatusPreconditionFailed,
		"SAGA_PARTICIPANT_VERSION_CONFLICT")
	if p := send("POST", "/card/hold", `{"reason":"maintenance."}`, "If-Match", `"1"`); p.State != "HELD" ||
		p.Version != 2 || p.HeldBy == nil || *p.Reason != *p.HeldBy+" holds it: maintenance" || p.NextCanaryAt != nil {
		t.Errorf("held: %+v", p)
	}
	if p := send("GET", "/card", ""); p.State != "HELD" {
		t.Errorf("read: %+v", p)
	}
	if p := send("POST", "/card/hold?dry_run=true", `{"reason":"r"}`); p.State != "HELD" || p.Version != 2 ||
		p.Changes == nil || len(*p.Changes) != 1 {
		t.Errorf("dry run of a hold: %+v", p)
	}
	if p := send("PUT", "/card", `{"base_url":"http://card.example"}`); p.State != "HELD" || p.Version != 3 ||
		p.TimeoutMS != nil || len(p.Headers) != 0 {
		t.Errorf("with other settings: %+v", p)
	}
	for _, r := range []apitest.Reply{
		e.Send("POST", path+"/card/hold", "", "If-Match", `"2"`), e.Send("POST", path+"/card/release", "", "If-Match", `"2"`),
		e.Send("DELETE", path+"/card", "", "If-Match", `"2"`), e.Send("PUT", path+"/card", full, "If-Match", `"2"`),
	} {
		r.Wants(http.StatusPreconditionFailed, "SAGA_PARTICIPANT_VERSION_CONFLICT")
	}
	if p := send("POST", "/card/release", `{"rate":2.5}`); p.State != "RELEASING" || *p.RatePerS != 2.5 || p.Version != 4 ||
		p.HeldBy != nil {
		t.Errorf("released: %+v", p)
	}
	if p := send("DELETE", "/card?dry_run=true", ""); p.Changes == nil {
		t.Errorf("dry run of a deletion: %+v", p)
	}
	if r := e.Send("DELETE", path+"/card", "", "If-Match", `"4"`); r.Status != http.StatusNoContent {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	for _, r := range []apitest.Reply{
		e.Send("POST", path+"/card/hold", ""), e.Send("POST", path+"/card/release", ""), e.Send("DELETE", path+"/card", ""),
	} {
		r.Wants(http.StatusNotFound, "SAGA_PARTICIPANT_NOT_FOUND")
	}
}

func TestReleasingAnOpenParticipantChangesNothing(t *testing.T) {
	e := apitest.NewEdge(t)
	var p client.Participant
	e.Send("PUT", path+"/a", `{"base_url":"http://a.example"}`).Reads(http.StatusOK, &p)
	e.Send("POST", path+"/a/release", "").Reads(http.StatusOK, &p)
	if p.State != "OPEN" || p.Version != 1 {
		t.Errorf("%+v", p)
	}
}

func TestParticipantsAreListedByName(t *testing.T) {
	e := apitest.NewEdge(t)
	for _, name := range []string{"b", "a", "c"} {
		e.Send("PUT", path+"/"+name, `{"base_url":"http://`+name+`.example"}`).Reads(http.StatusOK, new(client.Participant))
	}
	e.Send("POST", path+"/c/hold", "").Reads(http.StatusOK, new(client.Participant))
	var l client.ParticipantList
	e.Send("GET", path+"?page_size=2&include=total", "").Reads(http.StatusOK, &l)
	if len(l.Participants) != 2 || l.Participants[0].Name != "a" || !l.Pagination.HasNext ||
		*l.Pagination.TotalCount != 3 {
		t.Errorf("%+v", l)
	}
	e.Send("GET", path+"?page_size=2&cursor="+*l.Pagination.NextCursor, "").Reads(http.StatusOK, &l)
	if len(l.Participants) != 1 || l.Participants[0].Name != "c" || l.Pagination.HasNext {
		t.Errorf("the second page: %+v", l)
	}
	e.Send("GET", path+"?state=HELD", "").Reads(http.StatusOK, &l)
	if len(l.Participants) != 1 || l.Participants[0].Name != "c" {
		t.Errorf("held ones: %+v", l)
	}
}

func TestAnInvalidParticipantIsRefusedWithItsMistake(t *testing.T) {
	e := apitest.NewEdge(t, func(c *httpapi.Config) { c.Sagas.CheckParticipant = apitest.CheckEndpoint })
	e.Send("PUT", path+"/taken", `{"base_url":"http://taken.example"}`).Reads(http.StatusOK, new(client.Participant))
	for _, tt := range []struct {
		name, body   string
		status       int
		code, points string
	}{
		{"a b", `{"base_url":"http://a.example"}`, 422, "SAGA_PARTICIPANT_INVALID", "/name"},
		{"a", `{"base_url":"nowhere"}`, 422, "SAGA_PARTICIPANT_INVALID", "/base_url"},
		{"a", `{"base_url":"http://u:p@a.example"}`, 422, "SAGA_PARTICIPANT_INVALID", "/base_url"},
		{"a", `{"base_url":"http://a.example/?q=1"}`, 422, "SAGA_PARTICIPANT_INVALID", "/base_url"},
		{"a", `{"base_url":"http://a.example/?"}`, 422, "SAGA_PARTICIPANT_INVALID", "/base_url"},
		{"a", `{"base_url":"http://a.example","headers":{"A":"1","a":"2"}}`, 422,
			"SAGA_PARTICIPANT_INVALID", "/headers/a"},
		{"a", `{"base_url":"http://a.example","headers":{"X-Saga-Id":"1"}}`, 422, "SAGA_PARTICIPANT_INVALID",
			"/headers/X-Saga-Id"},
		{"a", `{"base_url":"http://a.example","headers":{"A b":"1"}}`, 422, "SAGA_PARTICIPANT_INVALID", "/headers/A b"},
		{"a", `{"base_url":"HTTP://TAKEN.example:80/"}`, 409, "SAGA_PARTICIPANT_URL_TAKEN", ""},
		{"a", `{"base_url":"http://a.example","outage":{"failure_ratio":0}}`, 422, "REQ_SCHEMA", "/outage/failure_ratio"},
		{"a", `{}`, 422, "REQ_SCHEMA", "/base_url"},
	} {
		r := e.Send("PUT", path+"/"+map[bool]string{true: "a%20b", false: tt.name}[tt.name == "a b"], tt.body)
		r.Wants(tt.status, tt.code)
		if p := r.Problem(); tt.points != "" && (len(p.Errors) != 1 || p.Errors[0].Pointer != tt.points) {
			t.Errorf("%s: %s", tt.body, r.Body)
		}
	}
}

// Both the saga's explain and the participant show what a saga waits for.
func TestASagaAtAGateIsExplained(t *testing.T) {
	e := apitest.NewEdge(t)
	var p client.Participant
	e.Send("PUT", path+"/card", `{"base_url":"http://127.0.0.1:9"}`).Reads(http.StatusOK, &p)
	e.Send("POST", path+"/card/hold", `{"reason":"maintenance"}`).Reads(http.StatusOK, &p)
	e.Node.Full = true
	e.Register("order", "charge")
	s := e.Start(`{"workflow_name":"order","payload":{}}`)
	var x client.SagaExplanation
	e.Send("GET", "/api/v1/sagas/"+s.SagaID.String()+"/explain", "").Reads(http.StatusOK, &x)
	if x.WaitsFor == "participant" {
		t.Errorf("it is not driven, and waits for %s", x.WaitsFor)
	}
	owner, err := e.Store.Sagas.Register(t.Context(), "other", "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if claimed, err := e.Store.Sagas.Claim(t.Context(), owner, 1); err != nil || len(claimed) != 1 {
		t.Fatalf("%d claimed, %v", len(claimed), err)
	}
	run := e.Node.Instance(s.SagaID)
	change, err := saga.Apply(run, saga.Parked{Participant: "card", Until: e.Cfg.Now().Add(time.Hour)},
		saga.Moment{Now: e.Cfg.Now(), NewID: e.Cfg.NewID})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Cfg.Sagas.Commit(t.Context(), change.Released(e.Cfg.Now())); err != nil {
		t.Fatal(err)
	}
	e.Send("GET", "/api/v1/sagas/"+s.SagaID.String()+"/explain", "").Reads(http.StatusOK, &x)
	want := "It waits for the participant card, which has been held since " + p.Since.UTC().Format(time.RFC3339) +
		" because anonymous holds it: maintenance; no other saga waits for it."
	if x.WaitsFor != "participant" || !strings.HasPrefix(x.Summary, want) || x.NextAt != nil {
		t.Errorf("%s: %s\nwant %s", x.WaitsFor, x.Summary, want)
	}
	e.Send("GET", path+"/card", "").Reads(http.StatusOK, &p)
	if *p.Waiting != 1 || p.LastHour == nil || p.LastHour.Calls != 0 {
		t.Errorf("%+v", p)
	}
}
