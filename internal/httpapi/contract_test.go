package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/bulk"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/httpapi/openapi"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/saga/sagabulk"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/test/apitest"
)

func TestEnumsOfTheContractMatchTheRules(t *testing.T) {
	schemas := apitest.OpenapiYAML(t).Components.Schemas
	var states, actions []string
	lifecycles := map[string]bool{}
	for _, state := range saga.States {
		states = append(states, state.String())
		for _, clean := range []bool{true, false} {
			lifecycles[state.Lifecycle(clean)] = true
		}
	}
	for _, rule := range saga.Verbs {
		actions = append(actions, string(rule.Verb))
	}
	actions = append(actions, saga.ArchivedActions()...)
	for name, want := range map[string][]string{
		"SagaState":             states,
		"SagaStatus":            apitest.Texts(saga.Statuses),
		"EndCause":              apitest.Texts(saga.Causes),
		"StepLogStatus":         apitest.Texts(saga.LogStatuses),
		"StepAction":            {string(saga.Execute), string(saga.Compensate)},
		"RetryClass":            apitest.Texts(retry.Classes),
		"SagaAction":            actions,
		"AuditEventType":        apitest.Texts(eventtype.All),
		"DeliveryStatus":        apitest.Texts(webhook.Statuses),
		"StepStateName":         saga.StepStateNames,
		"CompensationStateName": saga.UndoStateNames,
		"RedriveAction":         apitest.Texts(dlq.RedriveActions),
		"RedriveState":          apitest.Texts(dlq.RedriveStates),
		"RedriveOrder":          {string(dlq.Oldest), string(dlq.PerKey)},
		"RedriveItemState":      apitest.Texts(dlq.ItemStates),
		"RedriveVerb":           apitest.Texts(append(dlq.RedriveVerbs, dlq.VerbUpdate)),
		"DeadLetterGroupState":  apitest.Texts(dlq.GroupStates),
		"ActionKind":            apitest.Texts(operator.Kinds),
		"JobType":               apitest.Texts(jobrun.Types),
		"JobRunState":           apitest.Texts(jobrun.States),
		"JobTrigger":            apitest.Texts(jobrun.Triggers),
		"JobConcurrencyPolicy":  apitest.Texts(jobrun.Policies),
		"JobMisfirePolicy":      apitest.Texts(jobrun.Misfires),
		"JobRunWaitReason":      apitest.Texts(jobrun.Waitings),
		"BulkState":             apitest.Texts(bulk.States),
		"BulkVerb":              apitest.Texts(bulk.Verbs),
		"BackfillReprocess":     apitest.Texts(jobrun.Reprocesses),
		"JobBulkAction":         apitest.Texts(jobrun.BulkActions),
		"CertificationState":    apitest.Texts(certification.States),
		"CertificationOutcome":  apitest.Texts(certification.Verdicts),
		"CertificationVerb":     apitest.Texts(certification.Verbs),
		"SagaBulkAction":        apitest.Texts(sagabulk.Actions()),
		"SagaBulkOutcome":       apitest.Texts(sagabulk.Outcomes),
	} {
		var got []string
		for _, v := range schemas[name].Value.Enum {
			got = append(got, v.(string))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-rules +contract):\n%s", name, diff)
		}
	}
	var tamperings []string
	bad := schemas["AuditVerification"].Value.Properties["first_bad"].Value
	for _, v := range bad.Properties["kind"].Value.Enum {
		tamperings = append(tamperings, v.(string))
	}
	if diff := cmp.Diff(apitest.Texts(trail.Tamperings), tamperings); diff != "" {
		t.Errorf("kinds of first_bad (-rules +contract):\n%s", diff)
	}
	for _, v := range schemas["SagaLifecycle"].Value.Enum {
		delete(lifecycles, v.(string))
	}
	if len(lifecycles) > 0 {
		t.Errorf("SagaLifecycle lacks %v", lifecycles)
	}
}

func TestEveryPathOfTheContractIsServedAndNoOther(t *testing.T) {
	e := apitest.NewEdge(t)
	for path, item := range apitest.OpenapiYAML(t).Paths.Map() {
		concrete := strings.NewReplacer("{saga_id}", "01234567-89ab-7def-8123-456789abcdef", "{webhook_id}", "01234567-89ab-7def-8123-456789abcdef", "{delivery_id}", "01234567-89ab-7def-8123-456789abcdef", "{message_id}", "01234567-89ab-7def-8123-456789abcdef", "{name}",
			"order", "{version}", "1").Replace(path)
		if path == "/api/v1/saga-events/stream" {
			concrete += "?cursor=none" // otherwise the stream would not end
		}
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			r := e.Send(method, concrete, "")
			served := r.Status != http.StatusMethodNotAllowed &&
				(r.Status != http.StatusNotFound || r.Problem().Code != "REQ_NOT_FOUND")
			inContract := item.Operations()[method] != nil && path != "/metrics" // served by another handler
			if served != inContract {
				t.Errorf("%s %s: served %t, in the contract %t (%d)", method, path, served, inContract, r.Status)
			}
		}
	}
}

func TestTheEmbeddedContractIsOpenapiYAML(t *testing.T) {
	want, err := apitest.OpenapiYAML(t).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	text, err := openapi.Source()
	if err != nil {
		t.Fatal(err)
	}
	var embedded, edited any
	if err := json.Unmarshal(text, &embedded); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(want, &edited); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(edited, embedded); diff != "" {
		t.Errorf("run go generate ./api (-openapi.yaml +embedded):\n%s", diff)
	}
}

// TestContractAcceptsWhatTheRulesAccept checks the schema of definitions, which only serves
// readers: the HTTP layer does not enforce it.
func TestContractAcceptsWhatTheRulesAccept(t *testing.T) {
	schema := apitest.OpenapiYAML(t).Components.Schemas["WorkflowDefinition"].Value
	full, err := workflow.ParseYAML([]byte(apitest.YamlDefinition+`
  - {name: last, depends_on: [notify], action: {http: {url: "https://h/", method: PUT}}, compensation: none, compensation_retry: {retry_on: []}}
compensation_timeout_ms: 5
compensation_retry: {jitter: 0}
retention: {completed_ms: 1, failed_ms: -1}
description: everything a definition can say
`), workflow.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	good := map[string]string{"everything": string(asJSON), "the least": apitest.Definition("a", "x!")}
	bad := map[string]string{
		"no name":           `{"steps":[` + apitest.StepsJSON("x") + `]}`,
		"no steps":          `{"name":"a"}`,
		"an empty list":     `{"name":"a","steps":[]}`,
		"no compensation":   `{"name":"a","steps":[{"name":"x","action":{"http":{"url":"http://h/"}}}]}`,
		"another word":      `{"name":"a","steps":[{"name":"x","action":{"http":{"url":"http://h/"}},"compensation":"never"}]}`,
		"an unknown member": `{"name":"a","colour":1,"steps":[` + apitest.StepsJSON("x") + `]}`,
		"a past retention":  `{"name":"a","retention":{"completed_ms":-2},"steps":[` + apitest.StepsJSON("x") + `]}`,
		"too much jitter":   `{"name":"a","retry":{"jitter":2},"steps":[` + apitest.StepsJSON("x") + `]}`,
		"a GET":             `{"name":"a","steps":[{"name":"x","action":{"http":{"url":"http://h/","method":"GET"}},"compensation":"none"}]}`,
	}
	for want, table := range map[bool]map[string]string{true: good, false: bad} {
		for name, text := range table {
			_, ruleErr := workflow.ParseJSON([]byte(text), workflow.Limits{})
			var value any
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			schemaErr := schema.VisitJSON(value)
			if (ruleErr == nil) != want || (schemaErr == nil) != want {
				t.Errorf("%s: rules %v, contract %v, want accepted %t", name, ruleErr, schemaErr, want)
			}
		}
	}
}
