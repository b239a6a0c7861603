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
	return sagaOf(tb, mappedOrder, payload)
}

// sagaOf returns a saga that a node has claimed, of a definition in YAML.
func sagaOf(tb testing.TB, definition, payload string) Instance {
	tb.Helper()
	def, err := workflow.ParseYAML([]byte(definition), workflow.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	s := New(Spec{ID: uuid.UUID{1}, Payload: json.RawMessage(payload)}, def, 1, new(int64(1)), noon, time.Hour)
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
	*logs = append(*logs, c.Logs...)
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
	// The next attempt sends the same bytes.
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

// A request that cannot be built is a definite failure: nothing was sent, nothing of this step is
// undone, and there is no other attempt.
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

// Nothing is sent to an address, or with a header, that no server would accept.
func TestAddressesAndHeadersThatBecomeTooLongAreNotSent(t *testing.T) {
	for _, tt := range []struct{ id, header, wrong string }{
		{strings.Repeat("x", 8192-len("http://stock/reservations/?n=3")), "x", ""},
		{strings.Repeat("x", 8193-len("http://stock/reservations/?n=3")), "x", "url: the value has 8193 bytes, but at most 8192 are allowed"},
		{strings.Repeat("/", 3000), "x", "url: the value has 9030 bytes"},
		{"o", strings.Repeat("x", 8192), ""},
		{"o", strings.Repeat("x", 8193), "headers/X-Order: the value has 8193 bytes"},
		{"o", `a\u0007b`, "headers/X-Order: the value contains characters that a header cannot have"},
	} {
		definition := strings.Replace(mappedOrder, "${payload.id}/${call.attempt}", "${payload.header}", 1)
		r := sagaOf(t, definition, `{"n":2,"id":"`+tt.id+`","header":"`+tt.header+`","sku":"a","big":1}`)
		_, o, unsendable := r.Prepared(Defaults{}, Budget{}, noon)
		said := o.Code == CodeMappingFailed && strings.HasPrefix(o.Message, tt.wrong)
		if unsendable != (tt.wrong != "") || unsendable && !said {
			t.Errorf("%.20s, %.20s: %v %+v; want %s", tt.id, tt.header, unsendable, o, tt.wrong)
		}
	}
}

// In a compensation, such a failure needs an operator and names the expression.
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

const conditionalOrder = `
name: order
steps:
- {name: a, when: "${payload.a}", action: {http: {url: "http://h/a"}}, compensation: {http: {url: "http://h/undo/a"}}}
- {name: b, action: {http: {url: "http://h/b"}}, compensation: {http: {url: "http://h/undo/b"}}}
- {name: c, when: "payload.c > 1 && now > timestamp('2020-01-01T00:00:00Z')", action: {http: {url: "http://h/c"}},
   compensation: {http: {url: "http://h/undo/c"}}}
- {name: d, when: "!has(steps.c)", action: {http: {url: "http://h/d"}}, compensation: none}
`

// played drives a saga and returns the paths that were called. The path in refused answers 409.
func played(tb testing.TB, definition, payload, refused string) (calls string, r Instance, logs []StepLog) {
	tb.Helper()
	r = sagaOf(tb, definition, payload)
	for range 20 {
		var e Event = Turned{}
		switch task := r.Next(noon); task {
		case Rest:
			return calls, r, logs
		case Send:
			c, o, unsendable := r.Prepared(Defaults{}, Budget{}, noon)
			if !unsendable {
				way := strings.TrimPrefix(c.By.HTTP.URL, "http://h/")
				calls += way + " "
				if o = done(`{"x":1}`); way == refused {
					o = failing(Refused, retry.Refused)
				}
			}
			e = Answered{o}
		case Turn:
		default:
			tb.Fatal(task)
		}
		c, err := Apply(r, e, moments(noon))
		if err != nil {
			tb.Fatal(err)
		}
		logs = append(logs, c.Logs...)
		r = Rebuild(c.After.Saga, r.Def, logs) // as if the node were restarted after each commit
	}
	tb.Fatal("it does not end")
	return calls, r, logs
}

// A step whose condition is false is skipped, and nothing is undone for it.
func TestStepsWithAConditionThatIsFalseAreSkipped(t *testing.T) {
	for _, tt := range []struct {
		payload, refused, calls string
		end                     State
		skipped                 int
	}{
		{`{"a":true,"c":2}`, "", "a b c ", Completed, 1},
		{`{"a":false,"c":2}`, "", "b c ", Completed, 2},
		{`{"a":false,"c":1}`, "", "b d ", Completed, 2},
		{`{"a":true,"c":1}`, "", "a b d ", Completed, 1},
		{`{"a":true,"c":1}`, "d", "a b d undo/b undo/a ", Compensated, 1},
		{`{"a":false,"c":1}`, "b", "b ", Compensated, 1},
		{`{"a":false,"c":1}`, "d", "b d undo/b ", Compensated, 2},
		{`{"a":"no bool","c":1}`, "", "", Compensated, 0},
		{`{"a":true}`, "", "a b undo/b undo/a ", Compensated, 0},
		{`{"a":false,"c":"x"}`, "", "b undo/b ", Compensated, 1},
	} {
		calls, r, logs := played(t, conditionalOrder, tt.payload, tt.refused)
		skipped := 0
		for i := range logs {
			if logs[i].Action == Execute && logs[i].Status == LogSkipped {
				skipped++
			}
		}
		if calls != tt.calls || r.State != tt.end || skipped != tt.skipped {
			t.Errorf("%s, %s refused: %q, %s, %d skipped; want %q, %s, %d", tt.payload, tt.refused, calls, r.State, skipped,
				tt.calls, tt.end, tt.skipped)
		}
		if tt.calls == "" && (r.Error == nil || !strings.Contains(r.Error.Message, "when: ${payload.a}")) {
			t.Error(r.Error)
		}
	}
}

// BenchmarkPrepared measures building the request of a step with and without expressions.
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
