package conformance

import (
	"slices"
	"strings"
	"testing"
)

var (
	rules    = []string{"1", "2", "3", "4", "fence", "signed", "tenant", "operator", "response", "later"}
	outcomes = []string{"done", "refused", "not_applied", "fail", "later"}
	signs    = []string{"good", "none", "wrong", "changed", "old", "ahead"}
)

func TestTheVectorsAreWellFormed(t *testing.T) {
	all, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	seen, ruled := map[string]bool{}, map[string]bool{}
	for _, v := range all {
		if seen[v.Name] {
			t.Errorf("%s: there are two of this name", v.Name)
		}
		seen[v.Name], ruled[v.Rule] = true, true
		if !slices.Contains(rules, v.Rule) || !strings.HasSuffix(v.Why, ".") {
			t.Errorf("%s: rule %q, why %q", v.Name, v.Rule, v.Why)
		}
		if (v.Effects == nil) == (v.Net == nil) {
			t.Errorf("%s: either effects or net", v.Name)
		}
		plain := !slices.ContainsFunc(scripted(v), func(o Outcome) bool { return o.Outcome != "done" })
		if v.Certify && (v.Secrets != nil || !plain) {
			t.Errorf("%s: certify, but it needs a certain business function", v.Name)
		}
		for _, o := range scripted(v) {
			if !slices.Contains(outcomes, o.Outcome) {
				t.Errorf("%s: outcome %q", v.Name, o.Outcome)
			}
		}
		keys := map[string]bool{}
		for n, c := range v.Calls {
			keys[c.Key()] = true
			if !slices.Contains(signs, c.Sign) || (c.Action != "execute" && c.Action != "compensate") {
				t.Errorf("%s: call %d: sign %q, action %q", v.Name, n+1, c.Sign, c.Action)
			}
			for _, a := range c.Expect {
				finished := c.Finish != nil && !slices.Contains([]int{200, 404, 409}, a.Status)
				if (a.Status == 0) == (a.SameAs == 0) || a.SameAs > n || finished {
					t.Errorf("%s: call %d expects %+v", v.Name, n+1, a)
				}
			}
		}
		for _, r := range v.Reports {
			if !slices.ContainsFunc(v.Calls, func(c Call) bool { return c.Callback == r.To }) {
				t.Errorf("%s: no call has the callback %s", v.Name, r.To)
			}
		}
		for key := range v.Effects {
			if !keys[key] {
				t.Errorf("%s: no call has the key %s", v.Name, key)
			}
		}
	}
	for _, rule := range rules {
		if !ruled[rule] {
			t.Errorf("no vector is about rule %q", rule)
		}
	}
}

func scripted(v Vector) (all []Outcome) {
	for _, list := range v.Participant {
		all = append(all, list...)
	}
	for _, c := range v.Calls {
		if c.Finish != nil {
			all = append(all, *c.Finish)
		}
	}
	return all
}

func TestAVectorThatIsNotUnderstoodIsAnError(t *testing.T) {
	for _, text := range []string{
		`{"format": 2, "vectors": []}`, `{"format": 1, "vectors": [{"name": "a", "colour": 1}]}`, `{`,
	} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}
