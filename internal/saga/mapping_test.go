package saga

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

const mappedOrder = `
name: order
steps:
- name: reserve
  action: {http: {method: PUT, url: "http://stock/reservations/${payload.id}?n=${payload.n + 1}",
    headers: {X-Order: "${payload.id}/${call.attempt}"}, body: {sku: "${payload.sku}", big: "${payload.big}", key: "${call.key}"}}}
  answer: {output: "${body.id}"}
  compensation: {http: {method: DELETE, url: "http://stock/reservations/${output}"}}
- name: charge
  action: {http: {url: "http://card/charges", form: {amount: "${payload.total}", reservation: "${steps.reserve}"}}}
  compensation: {http: {url: "http://card/refunds", body: {charge: "${output.id}"}}}
- name: ship
  action: {http: {url: "http://parcel/"}}
  compensation: none
output: {reservation: "${steps.reserve}", twice: "${payload.n * 2}", none: "${payload.absent + 1}"}
`

func mappedSaga(tb testing.TB, payload string) Instance {
	tb.Helper()
	def, err := workflow.ParseYAML([]byte(mappedOrder), workflow.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	owner := int64(1)
	s := New(Spec{ID: uuid.UUID{1}, Payload: json.RawMessage(payload)}, def, 1, &owner, noon, time.Hour)
	return NewInstance(s, def)
}

const mappedPayload = `{"n":2,"id":"o/1","big":1.00000000000000000001,"sku":"a","total":12.50}`

// after applies the outcome of the call in flight and returns the next instance, rebuilt from its
// logs as after a restart.
func after(tb testing.TB, r Instance, logs *[]StepLog, o Outcome) Instance {
	tb.Helper()
	c, err := Apply(r, Answered{o}, moments(noon))
	if err != nil {
		tb.Fatal(err)
	}
	for i := range c.Logs {
		*logs = append(*logs, c.Logs[i])
	}
	rebuilt := Rebuild(c.After.Saga, r.Def, *logs)
	if !r.State.Terminal() && !c.After.State.Terminal() {
		want, _, _ := c.After.Prepared(Defaults{}, Budget{}, noon)
		got, _, _ := rebuilt.Prepared(Defaults{}, Budget{}, noon)
		if string(want.Body) != string(got.Body) || want.By.HTTP.URL != got.By.HTTP.URL || want.Key != got.Key {
			tb.Errorf("after a restart another call:\n%s %s\n%s %s", want.By.HTTP.URL, want.Body, got.By.HTTP.URL, got.Body)
		}
	}
	return rebuilt
}

func done(output string) Outcome {
	o := Outcome{Verdict: Done, StartedAt: noon, EndedAt: noon}
	if output != "" {
		o.Output = json.RawMessage(output)
	}
	return o
}

func failing(v Verdict, class retry.Class) Outcome {
	return Outcome{Verdict: v, Class: class, Code: "x", StartedAt: noon, EndedAt: noon}
}

func TestMappedCalls(t *testing.T) {
	r, logs := mappedSaga(t, mappedPayload), []StepLog{}
	id := r.ID.String()
	first, _, _ := r.Prepared(Defaults{}, Budget{}, noon)
	check := func(c Call, method, url, body string) {
		t.Helper()
		if c.By.HTTP.Method != method || c.By.HTTP.URL != url || string(c.Body) != body {
			t.Errorf("got  %s %s %s\nwant %s %s %s", c.By.HTTP.Method, c.By.HTTP.URL, c.Body, method, url, body)
		}
	}
	body := `{"big":1.00000000000000000001,"key":"` + id + `/reserve/execute","sku":"a"}`
	check(first, "PUT", "http://stock/reservations/o%2F1?n=3", body)
	if h := first.By.HTTP.Headers["X-Order"]; h != "o/1/1" {
		t.Error(h)
	}
	// The same bytes in the next attempt.
	r = after(t, r, &logs, failing(Unknown, retry.Timeout))
	second, _, _ := r.Prepared(Defaults{}, Budget{}, noon)
	check(second, "PUT", "http://stock/reservations/o%2F1?n=3", body)
	r = after(t, r, &logs, done(`"r 7"`))
	charge, _, _ := r.Prepared(Defaults{}, Budget{}, noon)
	check(charge, "POST", "http://card/charges", "amount=12.50&reservation=r%207")
	if charge.ContentType != workflow.ContentForm || charge.Headers()["Content-Type"] != workflow.ContentForm {
		t.Error(charge.ContentType)
	}
	r = after(t, r, &logs, done(`{"id":7}`))
	ship, _, _ := r.Prepared(Defaults{}, Budget{}, noon)
	if ship.Filled || !strings.HasPrefix(string(ship.Body), `{"saga_id"`) {
		t.Errorf("%s: a step without expressions sends the saga", ship.Body)
	}
	whole := after(t, r, new([]StepLog), done(""))
	if whole.State != Completed || string(whole.Result) != `{"none":null,"twice":4,"reservation":"r 7"}` {
		t.Error(whole.State, string(whole.Result))
	}
	r = after(t, r, &logs, failing(Refused, retry.Refused))
	refund, _, _ := r.Prepared(Defaults{}, Budget{}, noon)
	check(refund, "POST", "http://card/refunds", `{"charge":7}`)
	r = after(t, r, &logs, done(""))
	undo, _, _ := r.Prepared(Defaults{}, Budget{}, noon)
	if undo.By.HTTP.Method != "DELETE" || undo.By.HTTP.URL != "http://stock/reservations/r%207" {
		t.Error(undo.By.HTTP)
	}
	if r = after(t, r, &logs, done("")); r.State != Compensated {
		t.Error(r.State)
	}
}

// A request that cannot be made is a definite failure: nothing was sent, nothing of this step is
// undone, nothing is tried again.
func TestAMappingThatFailsIsNeverSent(t *testing.T) {
	r := mappedSaga(t, `{"n":2,"id":"","sku":"a","big":1}`)
	_, o, unsendable := r.Prepared(Defaults{}, Budget{}, noon)
	if !unsendable || o.Code != CodeMappingFailed || !strings.Contains(o.Message, "url: ${payload.id}") {
		t.Fatal(o)
	}
	if again, is := r.Unsendable(Budget{}, noon); !is || again.Message != o.Message {
		t.Error(again)
	}
	logs := []StepLog{}
	if r = after(t, r, &logs, o); r.State != Compensated || !*r.Clean || len(logs) != 1 {
		t.Error(r.State, r.Error, logs)
	}
}

// In a compensation it needs a person, and names the expression.
func TestACompensationThatCannotBeMappedNeedsAttention(t *testing.T) {
	r, logs := mappedSaga(t, mappedPayload), []StepLog{}
	r = after(t, r, &logs, done(`"r"`))
	lost := failing(Unknown, retry.Timeout)
	lost.Last = true
	r = after(t, r, &logs, lost)
	_, o, unsendable := r.Prepared(Defaults{}, Budget{}, noon)
	if r.State != Compensating || !unsendable || o.Code != CodeMappingFailed {
		t.Fatal(r.State, o)
	}
	r = after(t, r, &logs, o)
	if r.State != Failed || !r.NeedsAttention || !strings.Contains(r.Error.Message, "${output.id}") {
		t.Error(r.State, r.NeedsAttention, r.Error)
	}
}

// BenchmarkPrepared measures the request of a step without and with expressions.
func BenchmarkPrepared(b *testing.B) {
	mappedOne := mappedSaga(b, mappedPayload)
	plainOne := started("uuu")
	plainOne.Payload = json.RawMessage(mappedPayload)
	for name, r := range map[string]Instance{"unmapped": plainOne, "mapped": mappedOne} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, unsendable := r.Prepared(Defaults{}, Budget{Request: 1 << 20}, noon); unsendable {
					b.Fatal("not sent")
				}
			}
		})
	}
}
