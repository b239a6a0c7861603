package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/strictjson"
)

func TestWhatIsWrongWithOneElementStaysWithinIt(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                              "",
		` [ 1 , "a,]" ,{"b":[1,2]} ] `:    `1|"a,]"|{"b":[1,2]}`,
		`[{"a":NaN},{"b":1}]`:             `{"a":NaN}|{"b":1}`,
		`[{"a":[1},{"b":2}]`:              `{"a":[1}|{"b":2}`,
		`[{"a":1]},{"b":2}]`:              `{"a":1]}|{"b":2}`,
		`[{"a" "b"},{'c':1},{"d":1}]`:     `{"a" "b"}|{'c':1}|{"d":1}`,
		`[{"a":"\"]}"},"\\",2]`:           `{"a":"\"]}"}|"\\"|2`,
		`[1,,2,]`:                         `1||2|`,
		`[-Infinity,undefined,1e400,"]"]`: `-Infinity|undefined|1e400|"]"`,
		`[{"a":{"b":[[}},3]`:              `{"a":{"b":[[}}|3`,
		`[{"a":"x},{"b":1}]`:              "no",
		`[{"a":1,{"b":1}]`:                "no",
		`[1] 2`:                           "no",
		`{"a":1}`:                         "no",
		``:                                "no",
		`[`:                               "no",
	} {
		elements, ok := strictjson.Elements([]byte(in), 100)
		var texts []string
		for _, e := range elements {
			texts = append(texts, string(e))
		}
		if got := strings.Join(texts, "|"); ok != (want != "no") || ok && got != want {
			t.Errorf("%s: %s, %v; want %s", in, got, ok, want)
		}
		members, ok := strictjson.Members([]byte(`{"list":` + in + `,"n":1}`))
		if want != "no" && (!ok || len(members) != 2 || string(members[0].Raw) != strings.TrimSpace(in) ||
			members[1].Key != "n") {
			t.Errorf("as a member %s: %v, %v", in, members, ok)
		}
	}
	for in, want := range map[string]string{
		`{"a":1,"b":[1,2}`:    `a=1 b=[1,2`,
		`{"a":1,"b":[1,2}}`:   `a=1 b=[1,2`,
		`{"a":1,"b":{"c":[}}`: `a=1 b={"c":[}`,
		`{"a":1,"b":"x`:       `a=1`,
		`{"a":1,"b" 2,"c":3}`: `a=1`,
		`{"a":1,"b":}`:        `a=1 b=`,
		`{"a":1} {"b":2}`:     `a=1`,
		`[1]`:                 ``,
	} {
		var got []string
		for _, m := range strictjson.Salvaged([]byte(in)) {
			got = append(got, m.Key+"="+string(m.Raw))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: salvaged %v", in, got)
		}
	}
	whole := `{"n":1,"list":[{"b":[1}},{"c":2}]}`
	if members, ok := strictjson.Members([]byte(whole)); !ok || len(members) != 2 {
		t.Errorf("%s: %v, %v", whole, members, ok)
	}
	for _, in := range []string{
		``, `{`, `{"a"}`, `{"a":1,}`, `{"a":1}}`, `{a:1}`, `[]`, `{"\u00":1}`, `{"a":"`,
	} {
		if members, ok := strictjson.Members([]byte(in)); ok {
			t.Errorf("%s is split into %v", in, members)
		}
	}
}

// FuzzSplit: JSON is split as it is read, and anything else does not panic.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{`[1,{"a":[2]},"x"]`, `{"a":[1,2],"b":{"c":"d"}}`, `[{"a":[1},2]`, `[,`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		elements, split := strictjson.Elements(src, 1<<20)
		var list []json.RawMessage
		if json.Unmarshal(src, &list) == nil && list != nil {
			if !split || len(elements) != len(list) {
				t.Fatalf("%q: %d elements, %v", src, len(elements), split)
			}
			for i := range list {
				if string(elements[i]) != strings.TrimSpace(string(list[i])) {
					t.Errorf("%q: element %d is %q", src, i, elements[i])
				}
			}
		}
		members, split := strictjson.Members(src)
		var object map[string]json.RawMessage
		if json.Unmarshal(src, &object) == nil && object != nil && len(object) < 1000 {
			if !split || len(members) < len(object) {
				t.Fatalf("%q: %d members, %v", src, len(members), split)
			}
			for _, m := range members {
				if !json.Valid(m.Raw) {
					t.Errorf("%q: member %q is %q", src, m.Key, m.Raw)
				}
			}
		}
	})
}
