package expression_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/strictjson"
)

// drawn is a part of a string and its expected result.
type drawn struct {
	source string // as written in the template
	value  any
	fails  bool
}

// drawing draws templates over one payload. It derives their expected results from the drawing
// alone, without ever parsing a template.
type drawing struct {
	*rapid.T
	payload map[string]any // as it is stored: -0 becomes 0
	doc     string
	n, m    int64
	flag    bool
	s       string
}

func newDrawing(t *rapid.T) *drawing {
	d := &drawing{
		T: t, n: rapid.Int64Range(-1000, 1000).Draw(t, "n"), m: rapid.Int64Range(1, 1000).Draw(t, "m"),
		flag: rapid.Bool().Draw(t, "flag"), s: someText(t, "s"),
	}
	doc, err := strictjson.Encode(map[string]any{
		"n": json.Number(strconv.FormatInt(d.n, 10)), "m": json.Number(strconv.FormatInt(d.m, 10)),
		"flag": d.flag, "s": d.s, "any": someValue(3).Draw(t, "any"), "empty": "",
	})
	if err != nil {
		t.Skip(err)
	}
	d.payload, d.doc = strictjson.Decode(doc).(map[string]any), string(doc)
	return d
}

// someText draws text that JSON can represent.
func someText(t *rapid.T, label string) string {
	return strings.ReplaceAll(rapid.String().Draw(t, label), "\x00", "")
}

func number(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// expression draws one `${…}`.
func (d *drawing) expression() drawn {
	pick := func(is bool, yes, no any) any {
		if is {
			return yes
		}
		return no
	}
	known := []drawn{
		{"payload.n + payload.m", number(d.n + d.m), false},
		{"payload.n * payload.m - 7", number(d.n*d.m - 7), false},
		{"payload.n % payload.m", number(d.n % d.m), false},
		{"payload.n / payload.m", number(d.n / d.m), false},
		{"payload.n / (payload.m - payload.m)", nil, true},
		{"payload.n > payload.m", d.n > d.m, false},
		{"payload.flag && payload.n > 0 ? 'yes' : 'no'", pick(d.flag && d.n > 0, "yes", "no"), false},
		{"payload.s + '/' + payload.s", d.s + "/" + d.s, false},
		{"payload.s + payload.n", nil, true},
		{"[payload.n, payload.flag, payload.s]", []any{number(d.n), d.flag, d.s}, false},
		{"{'b': payload.n, 'a': [payload.s]}", map[string]any{"a": []any{d.s}, "b": number(d.n)}, false},
		{"size(payload.s) == 0", d.s == "", false},
		{"has(payload.any) && !has(payload.none)", true, false},
		{"payload.?none.orValue(payload.m)", number(d.m), false},
		{"payload.none", nil, true},
		{"payload.none.deeper", nil, true},
		{"'.' + '.'", "..", false}, {"payload.n", number(d.n), false}, {"payload.s", d.s, false}, {" payload.flag ", d.flag, false}, {"payload.empty", "", false},
	}
	if rapid.Bool().Draw(d.T, "known") {
		return rapid.SampledFrom(known).Draw(d.T, "expression")
	}
	members := rapid.SampledFrom([]string{"a", "b", "aa", "0", "1", "a-b", "ü", "_id"})
	parts := rapid.SliceOfN(members, 0, 3).Draw(d.T, "path")
	value, there := strictjson.At(d.payload, append([]string{"any"}, parts...))
	return drawn{strings.Join(append([]string{"payload.any"}, parts...), "."), value, !there}
}

// text draws a string of a template and its expected result.
func (d *drawing) text() drawn {
	if rapid.IntRange(0, 3).Draw(d.T, "alone") == 0 {
		e := d.expression()
		e.source = "${" + e.source + "}"
		return e
	}
	out, whole := drawn{value: ""}, ""
	for range rapid.IntRange(0, 4).Draw(d.T, "pieces") {
		switch rapid.IntRange(0, 2).Draw(d.T, "piece") {
		case 0:
			literal := rapid.SampledFrom([]string{
				"a", " ", "{", "}", "{}", "\"", "\\", "\n", "ü予", "$5", "/../", "&x=", "<b>", "%2F", "it's",
			}).Draw(d.T, "literal")
			out.source, whole = out.source+literal, whole+literal
		case 1:
			out.source, whole = out.source+"$${", whole+"${"
		default:
			e := d.expression()
			out.source += "<${" + e.source + "}>"
			inside, isText := scalar(e.value)
			out.fails = out.fails || e.fails || !isText
			whole += "<" + inside + ">"
		}
	}
	out.value = whole
	return out
}

// scalar returns the text of a value inside longer text.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool, json.Number:
		return fmt.Sprint(v), true
	}
	return "", false
}

// template draws a template and its expected result.
func (d *drawing) template(depth int) (source, becomes any, fails bool) {
	kind := rapid.IntRange(0, 5).Draw(d.T, "kind")
	if depth == 0 {
		kind %= 3
	}
	switch kind {
	case 0:
		plain := []any{nil, true, json.Number("1.50"), json.Number("12345678901234567890.1"), ""}
		v := rapid.SampledFrom(plain).Draw(d.T, "plain")
		return v, v, false
	case 1, 2:
		s := d.text()
		return s.source, s.value, s.fails
	case 3:
		from, to := []any{}, []any{}
		for range rapid.IntRange(0, 3).Draw(d.T, "elements") {
			s, b, f := d.template(depth - 1)
			from, to, fails = append(from, s), append(to, b), fails || f
		}
		return from, to, fails
	}
	from, to := map[string]any{}, map[string]any{}
	for _, key := range rapid.SliceOfNDistinct(someKey(), 0, 3, rapid.ID[string]).Draw(d.T, "keys") {
		s, b, f := d.template(depth - 1)
		from[key], to[key], fails = s, b, fails || f
	}
	return from, to, fails
}

func (d *drawing) world() world { return world{variables: map[string]string{"payload": d.doc}} }

// TestRandomTemplatesBecomeWhatWasDrawn compares the results of 10,000 templates with the expected
// results.
func TestRandomTemplatesBecomeWhatWasDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDrawing(t)
		source, becomes, fails := d.template(3)
		doc, err := strictjson.Encode(source)
		if err != nil {
			t.Fatal(err)
		}
		tmpl := expression.NewTemplate(doc, place(expression.Action), func(at string, err error) {
			t.Fatalf("%s: %s: %v", doc, at, err)
		})
		got, failed := tmpl.Append(nil, expression.Evaluate(d.world()))
		if fails != (failed != nil) {
			t.Fatalf("%s with %v: it becomes %s, %v; drawn to fail: %v", doc, d.payload, got, failed, fails)
		}
		if fails {
			return
		}
		if want, err := strictjson.Encode(becomes); err != nil || string(got) != string(want) {
			t.Fatalf("%s with %v:\n got %s\nwant %s", doc, d.payload, got, want)
		}
	})
}

// TestRandomFormsAndTargetsCarryWhatWasDrawn checks that, whatever the values are, a server reads
// exactly the members and segments that were drawn.
func TestRandomFormsAndTargetsCarryWhatWasDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDrawing(t)
		e := d.expression()
		value, isText := scalar(e.value)
		fails := e.fails || !isText
		check := func(what string, got []byte, err error, fails bool, want url.Values, read func() (url.Values, error)) {
			if fails != (err != nil) {
				t.Fatalf("%s ${%s}: %s %v; drawn to fail: %v", what, e.source, got, err, fails)
			}
			if fails {
				return
			}
			if is, err := read(); err != nil || is.Encode() != want.Encode() {
				t.Fatalf("%s ${%s}: %s is read as %v, %v; want %v", what, e.source, got, is, err, want)
			}
		}
		noMistake := func(at string, err error) { t.Fatal(e.source, at, err) }
		doc, err := strictjson.Encode(map[string]any{"a&b": "${" + e.source + "}", "c": "x ${" + e.source + "}"})
		if err != nil {
			t.Fatal(err)
		}
		of := expression.NewForm(doc, place(expression.Action), noMistake)
		form, failed := of.Append(nil, expression.Evaluate(d.world()))
		check("form", form, failed, fails, url.Values{"a&b": {value}, "c": {"x " + value}}, func() (url.Values, error) {
			return url.ParseQuery(string(form))
		})
		target, err := expression.NewTarget("http://h/a/${"+e.source+"}/b?q=${"+e.source+"}&r=1", place(expression.Action))
		if err != nil {
			t.Fatal(err)
		}
		to, failed := target.Append(nil, expression.Evaluate(d.world()))
		fails = fails || value == "" || value == "." || value == ".."
		check("target", to, failed, fails, url.Values{"q": {value}, "r": {"1"}, "path": {"/a/" + value + "/b"}},
			func() (url.Values, error) {
				u, err := url.Parse(string(to))
				if err != nil {
					return nil, err
				}
				if u.Host != "h" || u.Fragment != "" || strings.Count(u.EscapedPath(), "/") != 3 {
					return nil, fmt.Errorf("it leads to %s", u)
				}
				got := u.Query()
				got.Set("path", u.Path)
				return got, nil
			})
	})
}
