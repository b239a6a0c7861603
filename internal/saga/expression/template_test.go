package expression_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/strictjson"
)

// world has the values that every test uses.
type world struct{ variables, steps map[string]string }

func (w world) Variable(name string) (json.RawMessage, bool) {
	v, ok := w.variables[name]
	return json.RawMessage(v), ok
}

func (w world) Step(name string) (json.RawMessage, bool) {
	v, ok := w.steps[name]
	return json.RawMessage(v), ok
}

// canonical makes readable JSON canonical.
func canonical(tb testing.TB, s string) string {
	tb.Helper()
	b, err := strictjson.Canonical(nil, []byte(s), strictjson.Limits{})
	if err != nil {
		tb.Fatalf("%s: %s", s, err)
	}
	return string(b)
}

func aWorld(tb testing.TB) world {
	w := world{variables: map[string]string{
		"payload": `{"sku":"a-1","n":3,"big":123456789012345678901234567890.123456789,"price":19.90,"flag":true,
			"none":null,"list":[{"id":"x"},{"id":"y"}],"empty":"","nested":{"a":{"b":"c"}},"quote":"say \"hi\"\n",
			"with blank":"w","wide":9007199254740993,"uni":"予約","slash":"a/b?c=d&e","dots":"..","max":9223372036854775807,
			"half":0.5,"a-b":"minus","digits":"00"}`,
		"saga": `{"id":"019ab2c0","business_key":null,"correlation_id":"c-1","tenant":"t-1","created_at":"2026-01-02T03:04:05Z"}`,
		"call": `{"key":"019ab2c0/reserve/execute","attempt":2}`, "input": `{"sku":"a-1"}`, "output": `{"id":"out-1"}`,
		"now": `"2026-01-02T03:04:05.5Z"`, "status": "402", "headers": `{"location":"/charges/7"}`,
		"body": `{"state":"declined","data":[{"id":"d0"}]}`,
	}, steps: map[string]string{"reserve": `{"id":"r-7","amount":12.50}`, "a.b": `{"c":1}`, "re-serve": `"text"`, "null": "null"}}
	for k, v := range w.variables {
		w.variables[k] = canonical(tb, v)
	}
	for k, v := range w.steps {
		w.steps[k] = canonical(tb, v)
	}
	return w
}

func place(site expression.Site) *expression.Place {
	steps := []string{"reserve", "a.b", "re-serve", "null", "skipped", "later"}
	p := &expression.Place{
		Site:  site,
		Known: func(s string) bool { return strings.Contains(" "+strings.Join(steps, " ")+" ", " "+s+" ") },
		Usable: func(s string) error {
			if s == "later" {
				return errors.New("has not run")
			}
			return nil
		},
	}
	if site == expression.Action || site == expression.Undo {
		p.Secret = func(name string) error {
			if name != "TOKEN" {
				return errors.New("no such secret")
			}
			return nil
		}
	}
	return p
}

// filled returns the result of a template, or the reason why there is none.
func filled(tb testing.TB, template string, site expression.Site, e *expression.Evaluation) (string, error) {
	tb.Helper()
	var wrong error
	t := expression.NewTemplate(json.RawMessage(canonical(tb, template)), place(site), func(at string, err error) {
		if wrong == nil {
			wrong = fmt.Errorf("mistake at %s: %w", at, err)
		}
	})
	if wrong != nil {
		return "", wrong
	}
	b, err := t.Append(nil, e)
	return string(b), err
}

func TestTemplates(t *testing.T) {
	for _, tt := range []struct{ template, want string }{
		// Paths are copied.
		{`"${payload.sku}"`, `"a-1"`},
		{`"${payload.n}"`, `3`},
		{`"${ payload.n }"`, `3`},
		{`"${payload.big}"`, `123456789012345678901234567890.123456789`},
		{`"${payload.price}"`, `19.90`},
		{`"${payload.wide}"`, `9007199254740993`},
		{`"${payload.flag}"`, `true`},
		{`"${payload.none}"`, `null`},
		{`"${payload.list}"`, `[{"id":"x"},{"id":"y"}]`},
		{`"${payload.list.1.id}"`, `"y"`},
		{`"${payload.list[0].id}"`, `"x"`},
		{`"${payload.nested.a.b}"`, `"c"`},
		{`"${payload[\"nested\"]['a'].b}"`, `"c"`},
		{`"${payload[\"with blank\"]}"`, `"w"`},
		{`"${payload.a-b}"`, `"minus"`},
		{`"${payload.uni}"`, `"予約"`},
		{`"${payload.quote}"`, `"say \"hi\"\n"`},
		{`"${steps.reserve}"`, `{"id":"r-7","amount":12.50}`},
		{`"${steps.reserve.amount}"`, `12.50`},
		{`"${steps.a.b.c}"`, `1`},
		{`"${steps.a.b}"`, `{"c":1}`},
		{`"${steps[\"reserve\"].id}"`, `"r-7"`},
		{`"${steps.re-serve}"`, `"text"`},
		{`"${steps.null}"`, `null`},
		{`"${saga.id}"`, `"019ab2c0"`},
		{`"${saga.business_key}"`, `null`},
		{`"${call.key}"`, `"019ab2c0/reserve/execute"`},
		{`"${call.attempt}"`, `2`},
		{`"${input.sku}"`, `"a-1"`},
		{`"${output}"`, `{"id":"out-1"}`},
		{`"${output.id}"`, `"out-1"`},
		// Text.
		{`"order ${payload.sku}: ${payload.n} of ${payload.big}"`, `"order a-1: 3 of 123456789012345678901234567890.123456789"`},
		{`"${payload.quote}!"`, `"say \"hi\"\n!"`},
		{`"${payload.flag}${payload.price}"`, `"true19.90"`},
		{`"${payload.sku + '/' + payload.uni}!"`, `"a-1/予約!"`},
		{`"$${payload.sku}"`, `"${payload.sku}"`},
		{`"a $${b} ${payload.n}"`, `"a ${b} 3"`},
		{`"costs $5"`, `"costs $5"`},
		{`"$$"`, `"$$"`},
		// Whole documents keep their structure, in canonical order.
		{`{"b":1,"a":"${payload.n}","aa":[true,null,"${payload.sku}",1.50]}`, `{"a":3,"b":1,"aa":[true,null,"a-1",1.50]}`},
		{`{}`, `{}`}, {`[]`, `[]`}, {`7`, `7`}, {`"x"`, `"x"`},
		{`{"${payload.sku}":1}`, `{"${payload.sku}":1}`},
		// Computation.
		{`"${payload.n + 1}"`, `4`},
		{`"${payload.n * 2 - 1}"`, `5`},
		{`"${payload.half * 2.0}"`, `1`},
		{`"${payload.price + 0.1}"`, `20`},
		{`"${payload.wide + 1}"`, `9007199254740994`},
		{`"${payload.n > 2}"`, `true`},
		{`"${payload.n > 2.5}"`, `true`},
		{`"${payload.half < payload.n}"`, `true`},
		{`"${payload.flag ? 'yes' : 'no'}"`, `"yes"`},
		{`"${size(payload.list)}"`, `2`},
		{`"${payload.list.map(i, i.id)}"`, `["x","y"]`},
		{`"${payload.list.filter(i, i.id == 'y')}"`, `[{"id":"y"}]`},
		{`"${payload.list.exists(i, i.id == 'x')}"`, `true`},
		{`"${{'a': payload.n, 'b': {'c': [1, 2.5]}}}"`, `{"a":3,"b":{"c":[1,2.5]}}`},
		{`"${has(payload.none)}"`, `true`},
		{`"${has(payload.absent)}"`, `false`},
		{`"${has(payload.absent) ? payload.absent : 'd'}"`, `"d"`},
		{`"${payload.?absent.orValue('d')}"`, `"d"`},
		{`"${has(steps.reserve)}"`, `true`},
		{`"${has(steps.skipped)}"`, `false`},
		{`"${'re-serve' in steps}"`, `true`},
		{`"${'skipped' in steps}"`, `false`},
		{`"${steps['re-serve'] + '!'}"`, `"text!"`},
		{`"${has(steps.` + "`re-serve`" + `)}"`, `true`},
		{`"${steps.reserve.amount + 1.0}"`, `13.5`},
		{`"${payload.sku.upperAscii()}"`, `"A-1"`},
		{`"${payload.sku.split('-')}"`, `["a","1"]`},
		{`"${base64.encode(b'ab')}"`, `"YWI="`},
		{`"${string(payload.n) + '€'}"`, `"3€"`},
		{`"${int('42')}"`, `42`},
		{`"${1.0 / 4.0}"`, `0.25`},
		{`"${-0.0}"`, `0`},
		{`"${timestamp(saga.created_at) + duration('60s')}"`, `"2026-01-02T03:05:05Z"`},
		{`"${output == null ? 'lost' : output.id}"`, `"out-1"`},
		{`"${call.key + '#' + string(call.attempt)}"`, `"019ab2c0/reserve/execute#2"`},
		{`"${'}' + \"{\"}"`, `"}{"`},
		{`"${payload}"`, canonical(t, aWorld(t).variables["payload"])},
		// Secrets.
		{`{"token":"${secrets.TOKEN}"}`, `{"token":"«secret:TOKEN»"}`},
		{`"Bearer ${secrets.TOKEN}, ${payload.n}"`, `"Bearer «secret:TOKEN», 3"`},
	} {
		got, err := filled(t, tt.template, expression.Undo, expression.Evaluate(aWorld(t)))
		if err != nil || got != tt.want {
			t.Errorf("%s:\n got %s %v\nwant %s", tt.template, got, err, tt.want)
		}
		if err == nil && canonical(t, got) != got {
			t.Errorf("%s: not canonical: %s", tt.template, got)
		}
	}
}

// A failed evaluation gives the reason and quotes no value.
func TestFailures(t *testing.T) {
	for _, tt := range []struct{ template, want string }{
		{`"${payload.absent}"`, "${payload.absent}: a value that the expression refers to is missing"},
		{`{"a":["${payload.absent}"]}`, "/a/0: ${payload.absent}: a value that the expression refers to is missing"},
		{`"${payload.list.2}"`, "missing"}, {`"${payload.list.x}"`, "missing"}, {`"${payload.sku.x}"`, "missing"},
		{`"${steps.skipped.id}"`, "missing"}, {`"${steps.skipped}"`, "missing"},
		{`"${payload.absent + 1}"`, "missing"}, {`"${payload.list[5].id == 'x'}"`, "missing"},
		{`"x ${payload.none}"`, "only a string, a number, true or false"},
		{`"x ${payload.list}"`, "only a string, a number, true or false"},
		{`"x ${payload.nested}"`, "only a string, a number, true or false"},
		{`"x ${payload.list.map(i, i.id)}"`, "only a string, a number, true or false"},
		{`"${payload.big + 1.0}"`, "too many digits"}, {`"${[payload.big]}"`, "too many digits"},
		{`"${payload.sku + 1}"`, "wrong type"}, {`"${payload.n + 0.5}"`, "wrong type"},
		{`"${payload.max + 1}"`, "overflows"}, {`"${payload.n / 0}"`, "division by zero"}, {`"${payload.n % 0}"`, "division by zero"},
		{`"${1.0 / 0.0}"`, "finite"}, {`"${int(payload.sku)}"`, "cannot be computed"},
		{`"${b'ab'}"`, "base64"}, {`"${{1: 2}}"`, "not a string"},
		{`"${timestamp(payload.sku)}"`, "cannot be computed"},
		{`"${payload.list.map(a, payload.list.map(b, [1,2,3,4,5,6,7,8,9].map(c, [1,2,3,4,5,6,7,8,9].map(d, ` +
			`[1,2,3,4,5,6,7,8,9].map(e, [1,2,3,4,5,6,7,8,9].map(f, payload.list))))))}"`, "costs too much"},
	} {
		_, err := filled(t, tt.template, expression.Action, expression.Evaluate(aWorld(t)))
		var f *expression.Failure
		if !errors.As(err, &f) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.template, err, tt.want)
		}
		for _, value := range []string{"a-1", "1234567890123"} {
			if err != nil && strings.Contains(err.Error(), value) {
				t.Errorf("%s: quotes a value: %s", tt.template, err)
			}
		}
	}
}

// Mistakes that do not depend on the values are found at registration.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ template, want string }{
		{`"${payload.sku"`, "closing brace"}, {`"${}"`, "empty"}, {`"${ }"`, "empty"},
		{`"${payload.n +}"`, "is not an expression at character 12: "}, {`"${payload.n + 'a' * 2}"`, "is not an expression"},
		{`"${foo}"`, `no variable "foo" here; the variables available here are payload, steps, saga, call, secrets`},
		{`"${foo.bar > 1}"`, `no variable "foo"`}, {`"${output.id}"`, `no variable "output"`}, {`"${body.x}"`, `no variable "body"`},
		{`"${now}"`, `no variable "now"`}, {`"${status == 200}"`, `no variable "status"`},
		{`"${steps}"`, "name the step"}, {`"${size(steps) > 0}"`, "name the step"}, {`"${steps[payload.sku]}"`, "name the step"},
		{`"${steps.nope.id}"`, `"nope" is not a step`}, {`"${steps.nope.id > 1}"`, `"nope" is not a step`},
		{`"${has(steps.nope)}"`, `"nope" is not a step`}, {`"${'nope' in steps}"`, `"nope" is not a step`},
		{`"${steps.later}"`, "has not run"}, {`"${steps.later.x + 1}"`, "has not run"}, {`"${has(steps.later)}"`, "has not run"},
		{`"${saga}"`, "name one member of saga"}, {`"${saga.name}"`, `saga has no member "name"`},
		{`"${saga.name + 'x'}"`, `saga has no member "name"`}, {`"${call.deadline}"`, `call has no member "deadline"`},
		{`"${secrets.TOKEN + 'x'}"`, "not in a computation"}, {`"${size(secrets.TOKEN)}"`, "not in a computation"},
		{`"${secrets.OTHER}"`, "no such secret"}, {`"${secrets}"`, "name one secret"}, {`"${secrets.TOKEN.x}"`, "name one secret"},
		{`"${[1,2,3].map(x, ` + strings.Repeat("[1,2,3,4,5,6,7,8,9,10].map(y, ", 5) + "1" + strings.Repeat(")", 5) + `)}"`, "cost too much"},
		{`"${` + strings.Repeat("1+", 3000) + `1}"`, "more than 4096 bytes"},
		{`"${` + strings.Repeat("(", 300) + `1` + strings.Repeat(")", 300) + `}"`, "is not an expression"},
		{`"${unknown(1)}"`, `no function "unknown"`}, {`"${import x}"`, "is not an expression"},
	} {
		_, err := filled(t, tt.template, expression.Action, expression.Evaluate(aWorld(t)))
		if err == nil || !strings.Contains(err.Error(), "mistake at") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.80s: %v, want %s", tt.template, err, tt.want)
		}
	}
}

func TestSecretsAreNotEverywhere(t *testing.T) {
	for _, site := range []expression.Site{expression.Condition, expression.Answer, expression.Result} {
		if _, err := filled(t, `"${secrets.TOKEN}"`, site, expression.Evaluate(aWorld(t))); err == nil {
			t.Errorf("site %d has secrets", site)
		}
	}
}

func TestWhereSecretsBelong(t *testing.T) {
	e := expression.Evaluate(aWorld(t))
	got, err := filled(t, `{"a":"${secrets.TOKEN}","b":"«secret:TOKEN» ${payload.n} ${secrets.TOKEN}"}`, expression.Action, e)
	if err != nil || len(e.Secrets) != 2 {
		t.Fatal(got, err, e.Secrets)
	}
	for _, s := range e.Secrets {
		if s.Name != "TOKEN" || got[s.At:s.At+s.Len] != "«secret:TOKEN»" {
			t.Errorf("%+v: %q", s, got[s.At:s.At+s.Len])
		}
	}
}

func TestTargets(t *testing.T) {
	for _, tt := range []struct{ target, want, wrong string }{
		{"http://h/a/${payload.sku}", "http://h/a/a-1", ""},
		{"http://h/a/${payload.slash}/b?x=${payload.slash}", "http://h/a/a%2Fb%3Fc%3Dd%26e/b?x=a%2Fb%3Fc%3Dd%26e", ""},
		{"http://h/${payload.uni}", "http://h/%E4%BA%88%E7%B4%84", ""},
		{"http://h/a?x=${payload.empty}", "http://h/a?x=", ""},
		{"http://h/a/${payload.empty}", "", "empty"},
		{"http://h/a/${payload.dots}/b", "", `"." or ".."`},
		{"http://h/a/${payload.none}", "", "only a string"},
		{"http://h/a/${payload.list}", "", "only a string"},
		{"http://h/a/${payload.absent}", "", "missing"},
		{"http://h/${payload.n + 1}/x${payload.flag}", "http://h/4/xtrue", ""},
		{"http://h/a/${output.id}?k=${call.key}", "http://h/a/out-1?k=019ab2c0%2Freserve%2Fexecute", ""},
	} {
		p := place(expression.Undo)
		target, err := expression.NewTarget(tt.target, p)
		if err != nil {
			t.Errorf("%s: %s", tt.target, err)
			continue
		}
		got, err := target.Append(nil, expression.Evaluate(aWorld(t)))
		if tt.wrong == "" && (err != nil || string(got) != tt.want) ||
			tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
			t.Errorf("%s: %s %v, want %s%s", tt.target, got, err, tt.want, tt.wrong)
		}
	}
	p := place(expression.Undo)
	p.Secret = nil
	if _, err := expression.NewTarget("http://h/?k=${secrets.TOKEN}", p); err == nil {
		t.Error("a secret in a query")
	}
}

func TestForms(t *testing.T) {
	for _, tt := range []struct{ form, want, wrong string }{
		{`{"amount":"${payload.n}","card[number]":"${payload.sku}","b":true}`, "b=true&amount=3&card%5Bnumber%5D=a-1", ""},
		{`{"a":["${payload.slash}",2,"x y"]}`, "a=a%2Fb%3Fc%3Dd%26e&a=2&a=x%20y", ""},
		{`{"t":"${secrets.TOKEN}"}`, "t=«secret:TOKEN»", ""},
		{`{"a":{"b":1}}`, "", "must be a string"}, {`{"a":null}`, "", "must be a string"},
		{`{"a":"${payload.list}"}`, "", "only a string"}, {`{"a":"${payload.absent}"}`, "", "/a: ${payload.absent}"},
	} {
		var wrong error
		f := expression.NewForm(json.RawMessage(canonical(t, tt.form)), place(expression.Action),
			func(_ string, err error) { wrong = err })
		var got []byte
		if wrong == nil {
			got, wrong = f.Append(nil, expression.Evaluate(aWorld(t)))
		}
		if tt.wrong == "" && (wrong != nil || string(got) != tt.want) ||
			tt.wrong != "" && (wrong == nil || !strings.Contains(wrong.Error(), tt.wrong)) {
			t.Errorf("%s: %s %v, want %s%s", tt.form, got, wrong, tt.want, tt.wrong)
		}
		if most := f.Most(len(`"a/b?c=d&e"`)); wrong == nil && (most < len(got) || most > 200) {
			t.Errorf("%s: at most %d bytes; it has %d", tt.form, most, len(got))
		}
	}
}

func TestPredicates(t *testing.T) {
	for _, tt := range []struct {
		source string
		site   expression.Site
		want   bool
		wrong  string
	}{
		{"${payload.n > 2}", expression.Condition, true, ""}, {"payload.n > 3", expression.Condition, false, ""},
		{"${payload.flag}", expression.Condition, true, ""}, {"!payload.flag", expression.Condition, false, ""},
		{"now > timestamp('2026-01-01T00:00:00Z')", expression.Condition, true, ""},
		{"has(steps.skipped)", expression.Condition, false, ""},
		{"status in [200, 201]", expression.Answer, false, ""}, {"status == 402", expression.Answer, true, ""},
		{"body.state == 'declined'", expression.Answer, true, ""}, {"size(body.data) > 0", expression.Answer, true, ""},
		{"headers['location'].startsWith('/charges/')", expression.Answer, true, ""},
		{"has(headers.location) && !has(headers.etag)", expression.Answer, true, ""},
		{"payload.n", expression.Condition, false, "neither true nor false"},
		{"payload.n + 1", expression.Condition, false, "must be true or false"},
		{"payload.absent", expression.Condition, false, "missing"},
		{"1 + 1", expression.Condition, false, "must be true or false"}, {"'true'", expression.Condition, false, "must be true or false"},
		{"", expression.Condition, false, "empty"}, {"${}", expression.Condition, false, "is not an expression"},
		{"payload.n > 2", expression.Answer, false, "no variable"}, {"size(status) > 0", expression.Answer, false, "is not an expression"},
		{"headers.location > 1", expression.Answer, false, "is not an expression"},
	} {
		p, err := expression.NewPredicate(tt.source, place(tt.site))
		got := false
		if err == nil {
			got, err = p.True(expression.Evaluate(aWorld(t)))
		}
		if tt.wrong == "" && (err != nil || got != tt.want) ||
			tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
			t.Errorf("%s: %v %v, want %v %s", tt.source, got, err, tt.want, tt.wrong)
		}
	}
}
