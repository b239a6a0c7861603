package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

func TestTheContractsEnumsAreTheRulebooks(t *testing.T) {
	schemas := openapiYAML(t).Components.Schemas
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
		"SagaStatus":            texts(saga.Statuses),
		"EndCause":              texts(saga.Causes),
		"StepLogStatus":         texts(saga.LogStatuses),
		"StepAction":            {string(saga.Execute), string(saga.Compensate)},
		"RetryClass":            texts(retry.Classes),
		"SagaAction":            actions,
		"AuditEventType":        texts(saga.AuditTypes),
		"DeliveryStatus":        texts(webhook.Statuses),
		"StepStateName":         saga.StepStateNames,
		"CompensationStateName": saga.UndoStateNames,
		"RedriveAction":         texts(dlq.RedriveActions),
		"RedriveState":          texts(dlq.RedriveStates),
		"RedriveOrder":          {string(dlq.Oldest), string(dlq.PerKey)},
		"RedriveItemState":      texts(dlq.ItemStates),
		"RedriveVerb":           texts(append(dlq.RedriveVerbs, dlq.VerbUpdate)),
		"DeadLetterGroupState":  texts(dlq.GroupStates),
		"ActionKind":            texts(operator.Kinds),
		"JobType":               texts(jobrun.Types),
		"JobRunState":           texts(jobrun.States),
		"JobTrigger":            texts(jobrun.Triggers),
		"JobConcurrencyPolicy":  texts(jobrun.Policies),
		"JobMisfirePolicy":      texts(jobrun.Misfires),
		"JobRunWaitReason":      texts(jobrun.Waitings),
		"BulkState":             texts(jobrun.BulkStates),
		"BackfillReprocess":     texts(jobrun.Reprocesses),
		"JobBulkAction":         texts(jobrun.BulkActions),
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
	if diff := cmp.Diff(texts(saga.Tamperings), tamperings); diff != "" {
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
	e := newEdge(t)
	for path, item := range openapiYAML(t).Paths.Map() {
		concrete := strings.NewReplacer("{saga_id}", "01234567-89ab-7def-8123-456789abcdef", "{webhook_id}", "01234567-89ab-7def-8123-456789abcdef", "{delivery_id}", "01234567-89ab-7def-8123-456789abcdef", "{message_id}", "01234567-89ab-7def-8123-456789abcdef", "{name}", "order", "{version}", "1").Replace(path)
		if path == "/api/v1/saga-events/stream" {
			concrete += "?cursor=none" // it would not end
		}
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			r := e.send(method, concrete, "")
			served := r.status != http.StatusMethodNotAllowed && (r.status != http.StatusNotFound || r.problem().Code != "REQ_NOT_FOUND")
			inContract := item.Operations()[method] != nil && path != "/metrics" // served by somebody else
			if served != inContract && !alsoAName[method+" "+path] {
				t.Errorf("%s %s: served %t, in the contract %t (%d)", method, path, served, inContract, r.status)
			}
		}
	}
}

// alsoAName are literal paths that methods they do not have take for a name, an
// id or a topic.
var alsoAName = map[string]bool{
	"GET /api/v1/job-runs/bulk": true, "GET /api/v1/workflows/validate": true, "GET /api/v1/dlq/import": true, "GET /api/v1/dlq/messages/batch": true,
	"PATCH /api/v1/dlq/messages/batch": true, "DELETE /api/v1/dlq/messages/batch": true,
}

func TestThePublishedContractIsOpenapiYAML(t *testing.T) {
	want, err := openapiYAML(t).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var published, edited any
	newEdge(t).send("GET", "/openapi.json", "").into(&published)
	if err := json.Unmarshal(want, &edited); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(edited, published); diff != "" {
		t.Errorf("run go generate ./api (-openapi.yaml +served):\n%s", diff)
	}
}

// TestTheContractAcceptsWhatTheRulebookAccepts keeps the schema of definitions
// honest, which is for readers: the edge does not enforce it.
func TestTheContractAcceptsWhatTheRulebookAccepts(t *testing.T) {
	schema := openapiYAML(t).Components.Schemas["WorkflowDefinition"].Value
	full, err := workflow.ParseYAML([]byte(yamlDefinition+`
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
	good := map[string]string{"everything": string(asJSON), "the least": definition("a", "x!")}
	bad := map[string]string{
		"no name":           `{"steps":[` + stepsJSON("x") + `]}`,
		"no steps":          `{"name":"a"}`,
		"an empty list":     `{"name":"a","steps":[]}`,
		"no compensation":   `{"name":"a","steps":[{"name":"x","action":{"http":{"url":"http://h/"}}}]}`,
		"another word":      `{"name":"a","steps":[{"name":"x","action":{"http":{"url":"http://h/"}},"compensation":"never"}]}`,
		"an unknown member": `{"name":"a","colour":1,"steps":[` + stepsJSON("x") + `]}`,
		"a past retention":  `{"name":"a","retention":{"completed_ms":-2},"steps":[` + stepsJSON("x") + `]}`,
		"too much jitter":   `{"name":"a","retry":{"jitter":2},"steps":[` + stepsJSON("x") + `]}`,
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
				t.Errorf("%s: rulebook %v, contract %v, want accepted %t", name, ruleErr, schemaErr, want)
			}
		}
	}
}
