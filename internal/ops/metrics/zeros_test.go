package metrics_test

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/skald-saga/skald/internal/ops/metrics"
)

// If a counter first appears with its first failure, its first value is 1, and Prometheus sees no
// increase.
func TestCountersAreThereBeforeTheirFirstFailure(t *testing.T) {
	m := metrics.New(idle)
	m.JobSweeps([]string{"admit"})
	m.Risks([]string{"fsync"})
	got := scrape(t, m)
	for _, name := range []string{
		`skald_sagas_ended_total{state="failed"}`,
		`skald_sagas_ended_total{state="timed_out"}`,
		`skald_saga_duration_seconds_count{state="failed"}`,
		`skald_sagas_live{state="compensating"}`,
		`skald_sagas_stalled_total{reason="unowned"}`,
		`skald_step_calls_total{action="COMPENSATE",result="invalid_response"}`,
		`skald_step_calls_total{action="EXECUTE",result="refused"}`,
		`skald_step_call_seconds_count{action="COMPENSATE"}`,
		`skald_http_requests_total{code="500",method="get"}`,
		`skald_http_requests_total{code="503",method="post"}`,
		`skald_http_requests_limited_total{limit="creates"}`,
		`skald_webhook_attempts_total{result="failed"}`,
		`skald_dead_letters{status="DEAD"}`,
		`skald_dead_letter_drives_total{kind="webhook",outcome="UNCERTAIN"}`,
		`skald_job_logs_offloaded_total{outcome="failed"}`,
		`skald_job_lease_hints_total{outcome="lost"}`,
		`skald_job_sweep_failures_total{sweep="admit"}`,
		`skald_job_sweep_rows_total{sweep="admit"}`,
		`skald_job_invariants_broken_total`,
		`skald_job_runs{state="held"}`,
		`skald_participants{state="HELD"}`,
		`skald_database_risk{risk="superuser"}`,
		`skald_database_risk{risk="fsync"}`,
	} {
		if v, is := got[name]; !is || v != 0 {
			t.Errorf("%s is %v, shown %t; want 0 from the start", name, v, is)
		}
	}
	for name, v := range got {
		if v != 0 {
			t.Errorf("%s is %v before anything has happened", name, v)
		}
		if strings.HasPrefix(name, "skald_database_writable") {
			t.Error("0 would say that the database accepts no writes, before it has been asked")
		}
	}
	m.Database(false, false, nil, nil)
	if v, is := scrape(t, m)["skald_database_writable"]; !is || v != 0 {
		t.Errorf("of a database that accepts no writes: %v, shown %t", v, is)
	}
}

// Labels whose values the contract lists have a series for each of them, whichever are added.
func TestEveryValueOfTheContractHasItsSeries(t *testing.T) {
	text, err := os.ReadFile("../../../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Enum       []string
		Properties map[string]struct{ Enum []string }
	}
	var contract struct {
		Components struct{ Schemas map[string]schema }
	}
	if err := yaml.Unmarshal(text, &contract); err != nil {
		t.Fatal(err)
	}
	got := scrape(t, metrics.New(idle))
	for named, series := range map[string][]string{
		"SagaState":            {`skald_sagas_live{state="?"}`, `skald_sagas_ended_total{state="?"}`},
		"RetryClass":           {`skald_step_calls_total{action="EXECUTE",result="?"}`},
		"ParticipantState":     {`skald_participants{state="?"}`},
		"DeadLetterStatus":     {`skald_dead_letters{status="?"}`},
		"DeadLetterTargetKind": {`skald_dead_letter_drives_total{kind="?",outcome="ACKNOWLEDGED"}`},
		"DeadLetterAttempt":    {`skald_dead_letter_drives_total{kind="kafka",outcome="?"}`},
	} {
		values := contract.Components.Schemas[named].Enum
		if values == nil {
			values = contract.Components.Schemas[named].Properties["outcome"].Enum
		}
		if len(values) < 3 {
			t.Errorf("the contract has no enum %s", named)
		}
		for _, value := range values {
			shown := 0
			for _, s := range series {
				if _, is := got[strings.Replace(s, "?", value, 1)]; is {
					shown++
				}
			}
			if shown != 1 && value != "RESOLVED" { // letters that are done are in no backlog
				t.Errorf("%s %s: %d of %v are there from the start, want one", named, value, shown, series)
			}
		}
	}
}
