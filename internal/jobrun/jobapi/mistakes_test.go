package jobapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestAllViolationsOfADefinitionAreReportedTogether(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t)
	got := e.Send("POST", definitions, `{"name":"bad name!","type":"time","command_name":"","schedule":{"type":"cron","value":"61 * * * *","timezone":"Mars/Base"},
		"concurrency_policy":"never","retry":{"max_attempts":-1},"timeout_ms":-5,"args_schema":{"type":"bogus"}}`).Pointers(http.StatusUnprocessableEntity, "REQ_SCHEMA")
	want := []string{"/args_schema", "/command_name", "/concurrency_policy", "/name", "/retry/max_attempts",
		"/schedule/timezone", "/schedule/value", "/timeout_ms"}
	for _, at := range want {
		if !slices.ContainsFunc(got, func(p string) bool { return strings.HasPrefix(p, at) }) {
			t.Errorf("nothing is told of %s: %v", at, got)
		}
	}
	// A member with a wrong form is reported only once, and not as missing as well.
	if got := e.Send("POST", definitions, `{"name":7,"type":"time","command_name":"c","schedule":"daily","colour":"red"}`).Pointers(http.StatusUnprocessableEntity, "REQ_SCHEMA"); !slices.Equal(got,
		[]string{"/colour", "/name", "/schedule"}) {
		t.Errorf("mistakes at %v", got)
	}
	if got := e.Send("POST", definitions, `{"name":"a b","type":"manual","command_name":"c"}`).Pointers(http.StatusUnprocessableEntity, "JOB_INVALID"); !slices.Equal(got,
		[]string{"/name"}) {
		t.Errorf("mistakes at %v", got)
	}
}

func TestAllViolationsInSettingsAreReportedTogether(t *testing.T) {
	t.Parallel()
	s := newJobEdge(t)
	for body, code := range map[string]string{
		`{"values":{"colour":1,"run_lease_seconds":-1,"sweep_limit":10.5,"heartbeat_ttl_seconds":"5s"}}`: "REQ_SCHEMA",
		`{"values":{"colour":1,"run_lease_seconds":-1,"sweep_limit":10.5,"heartbeat_ttl_seconds":0}}`:    "JOB_SETTING_INVALID",
	} {
		got := s.Send("PATCH", "/api/v1/settings", body).Pointers(http.StatusUnprocessableEntity, code)
		if want := []string{"/values/colour", "/values/heartbeat_ttl_seconds", "/values/run_lease_seconds", "/values/sweep_limit"}; !slices.Equal(got,
			want) {
			t.Errorf("%s: mistakes at %v, want %v", body, got, want)
		}
	}
}
