package workflow_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// step returns a valid step as JSON with extra members, none of which may repeat one of the step's
// own.
func step(name string, extra ...string) string {
	return fmt.Sprintf(
		`{"name":%q,"action":{"http":{"url":"http://h/"}},"compensation":"none"%s}`,
		name,
		strings.Join(append([]string{""}, extra...), ","),
	)
}

// flow returns a definition with these steps as JSON.
func flow(steps ...string) string { return `{"name":"w","steps":[` + strings.Join(steps, ",") + `]}` }

// acting and undoing are definitions with this action and this compensation.
func acting(call string) string {
	return flow(`{"name":"s","action":` + call + `,"compensation":"none"}`)
}
func undoing(c string) string {
	return flow(`{"name":"s","action":{"http":{"url":"http://h/"}},"compensation":` + c + `}`)
}

// calling is a definition whose action has this URL.
func calling(url string) string { return acting(fmt.Sprintf(`{"http":{"url":%q}}`, url)) }

// with is a valid definition with one more member at the top level.
func with(member string) string { return `{"name":"w",` + member + `,"steps":[` + step("s") + `]}` }

func problem(pointer, code string) string { return pointer + " " + code }

// mistakes lists what is wrong as "pointer CODE", and the common code.
func mistakes(err error) (code string, all []string) {
	f := fault.As(err)
	if f == nil {
		return "", nil
	}
	for _, p := range f.Fields {
		all = append(all, problem(p.Pointer, p.Code))
	}
	return f.Code, all
}

// calls is a step with a compensation and the extra members.
func calls(name string, extra ...string) string {
	return fmt.Sprintf(`{"name":%q,"action":{"http":{"url":"http://h/"}},"compensation":{"http":{"url":"http://h/"}}%s}`,
		name, strings.Join(append([]string{""}, extra...), ","))
}

// TestWhatFollowsAFailure checks the words of on_failure and pivot, and what must not be combined
// with them.
func TestWhatFollowsAFailure(t *testing.T) {
	bad, after := workflow.CodeInvalid, workflow.CodeCompensationAfterPivot
	const pivot, suspend, back = `"pivot":true`, `"on_failure":"suspend"`, `"on_failure":"compensate"`
	job := func(extra string) string { return `{"name":"j","job":"nightly","compensation":"none"` + extra + `}` }
	for _, tt := range []struct {
		name, src, code string
		pointers        []string
	}{
		{"suspend in a step", flow(calls("a", suspend)), "", nil},
		{"suspend on a step without a compensation", flow(step("a", suspend)), "", nil},
		{"suspend on a job", flow(job(`,"on_failure":"suspend"`)), "", nil},
		{"suspend for all, and one that compensates", `{"name":"w","on_failure":"suspend","steps":[` + calls("a", back) + `]}`, "", nil},
		{"suspend for all, with a pivot", `{"name":"w","on_failure":"suspend","steps":[` + step("a", pivot) + `,` + step("b") + `]}`, "", nil},
		{"a pivot that can be undone", flow(calls("a"), calls("b", pivot), step("c")), "", nil},
		{"a pivot that suspends", flow(calls("a"), step("b", pivot, suspend), step("c")), "", nil},
		{"the last step is the pivot", flow(calls("a"), step("b", pivot)), "", nil},
		{"a job is the pivot", flow(job(`,"pivot":true`), step("c")), "", nil},
		{"not a pivot", flow(calls("a", `"pivot":false`), calls("b")), "", nil},
		{"null", flow(calls("a", `"pivot":null`, `"on_failure":null`), calls("b")), "", nil},
		{"declared before, but run after", flow(step("c", `"depends_on":["b"]`), calls("a"), step("b", pivot)), "", nil},
		{"an undo that goes on", flow(calls("a", `"on_compensation_failure":"go_on"`)), "", nil},
		{"a job whose undo goes on", flow(`{"name":"j","job":"x","compensation":{"job":"y"},"on_compensation_failure":"go_on"}`),
			"", nil},
		{"go on for all, one stops, one has no undo", `{"name":"w","on_compensation_failure":"go_on","steps":[` +
			calls("a", `"on_compensation_failure":"stop"`) + `,` + step("b") + `]}`, "", nil},
		{"both words", flow(calls("a", suspend, `"on_compensation_failure":"go_on"`)), "", nil},
		{"no undo that could go on", flow(step("a", `"on_compensation_failure":"go_on"`)), bad,
			[]string{"/steps/0/on_compensation_failure " + bad}},
		{"another word for undos", flow(calls("a", `"on_compensation_failure":"continue"`)), bad,
			[]string{"/steps/0/on_compensation_failure " + bad}},
		{"an undo that goes on after the pivot", flow(step("a", pivot), step("b", `"on_compensation_failure":"go_on"`)), bad,
			[]string{"/steps/1/on_compensation_failure " + bad}},
		{"another word", flow(step("a", `"on_failure":"stop"`)), bad, []string{"/steps/0/on_failure " + bad}},
		{"the empty word", flow(step("a", `"on_failure":""`)), bad, []string{"/steps/0/on_failure " + bad}},
		{"in capitals", with(`"on_failure":"Suspend"`), bad, []string{"/on_failure " + bad}},
		{"no word", flow(step("a", `"on_failure":true`)), bad, []string{"/steps/0/on_failure " + bad}},
		{"a pivot in words", flow(step("a", `"pivot":"true"`)), bad, []string{"/steps/0/pivot " + bad}},
		{"a pivot as a number", flow(step("a", `"pivot":1`)), bad, []string{"/steps/0/pivot " + bad}},
		{"the workflow as a pivot", with(pivot), bad, []string{"/pivot " + bad}},
		{"a compensation after it", flow(step("a", pivot), calls("b"), step("c")), after, []string{"/steps/1/compensation " + after}},
		{"several", flow(step("a", pivot), calls("b"), calls("c")), after, []string{"/steps/1/compensation " + after,
			"/steps/2/compensation " + after}},
		{"after it by position, though declared first", flow(calls("c", `"depends_on":["b"]`), step("b", pivot)), after,
			[]string{"/steps/0/compensation " + after}},
		{"a second pivot", flow(step("a", pivot), step("b", pivot)), workflow.CodeSecondPivot,
			[]string{"/steps/1/pivot " + workflow.CodeSecondPivot}},
		{"on_failure after it", flow(step("a", pivot), step("b", suspend), step("c", back)), workflow.CodeAfterPivot,
			[]string{"/steps/1/on_failure " + workflow.CodeAfterPivot, "/steps/2/on_failure " + workflow.CodeAfterPivot}},
		{"everything at once", flow(step("a", pivot), calls("b", pivot, suspend)), bad, []string{
			"/steps/1/pivot " + workflow.CodeSecondPivot, "/steps/1/compensation " + after,
			"/steps/1/on_failure " + workflow.CodeAfterPivot}},
	} {
		d, err := workflow.ParseJSON([]byte(tt.src), workflow.Limits{})
		code, pointers := mistakes(err)
		if code != tt.code || !cmp.Equal(pointers, tt.pointers) {
			t.Errorf("%s: %s %q, want %s %q", tt.name, code, pointers, tt.code, tt.pointers)
		}
		if err != nil {
			continue
		}
		stored, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := workflow.ParseJSON(stored, workflow.Limits{})
		if err != nil || !cmp.Equal(d, again, asStored) {
			t.Errorf("%s: is stored as %s: %v", tt.name, stored, err)
		}
	}
}

func TestEveryMistakeHasItsCodeAndPointer(t *testing.T) {
	bad := workflow.CodeInvalid
	headers := func(h string) string { return acting(`{"http":{"url":"http://h/","headers":` + h + `}}`) }
	for _, tt := range []struct {
		name, src, code string
		pointers        []string
	}{
		{"not an object", `[]`, bad, []string{""}},
		{"null", `null`, bad, []string{""}},
		{"an unknown field", with(`"nmae":"x"`), bad, []string{"/nmae"}},
		{"an unknown field whose name needs escaping", with(`"a/b~c":1`), bad, []string{"/a~1b~0c"}},
		{"the empty field", with(`"":1`), bad, []string{"/"}},
		{"no name", `{"steps":[` + step("s") + `]}`, bad, []string{"/name"}},
		{"a name of another type", `{"name":5,"steps":[` + step("s") + `]}`, bad, []string{"/name"}},
		{"an empty name", flow(step("")), bad, []string{"/steps/0/name"}},
		{"a name that is too long", flow(step(strings.Repeat("n", 256))), bad, []string{"/steps/0/name"}},
		{"a name that is not a name", flow(step("a b")), bad, []string{"/steps/0/name"}},
		{"a description that is too long", with(`"description":"` + strings.Repeat("é", 2001) + `"`), bad, []string{"/description"}},
		{"a description of another type", with(`"description":["x"]`), bad, []string{"/description"}},
		{"a retention before the end", with(`"retention":{"completed_ms":-2}`), bad, []string{"/retention/completed_ms"}},
		{"a retention of a hundred years and a millisecond", with(`"retention":{"failed_ms":3162240000001}`), bad, []string{"/retention/failed_ms"}},
		{"a retention as a number", with(`"retention":5`), bad, []string{"/retention"}},
		{"a retention of another kind", with(`"retention":{"cancelled_ms":5}`), bad, []string{"/retention/cancelled_ms"}},
		{"a timeout of zero", with(`"timeout_ms":0`), bad, []string{"/timeout_ms"}},
		{"a negative timeout", with(`"timeout_ms":-1`), bad, []string{"/timeout_ms"}},
		{"a timeout of more than a year", with(`"timeout_ms":31622400001`), bad, []string{"/timeout_ms"}},
		{"a timeout of half a millisecond", with(`"timeout_ms":1.5`), bad, []string{"/timeout_ms"}},
		{"a timeout as text", with(`"timeout_ms":"1"`), bad, []string{"/timeout_ms"}},
		{"a boolean timeout", with(`"compensation_timeout_ms":true`), bad, []string{"/compensation_timeout_ms"}},
		{"an integer beyond 63 bits", with(`"timeout_ms":9999999999999999999`), bad, []string{"/timeout_ms"}},
		{"an integer beyond 64 bits", with(`"timeout_ms":99999999999999999999`), bad, []string{"/timeout_ms"}},
		{"a retry policy that is not an object", with(`"retry":3`), bad, []string{"/retry"}},
		{"an unknown field in a policy", with(`"retry":{"attempts":3}`), bad, []string{"/retry/attempts"}},
		{"no attempts", with(`"retry":{"max_attempts":0}`), bad, []string{"/retry/max_attempts"}},
		{"zeros, which are not defaults", with(`"timeout_ms":0,"compensation_timeout_ms":0,"retry":{"multiplier":0,"initial_interval_ms":0,"max_interval_ms":0},"compensation_retry":{"multiplier":0.0}`), bad,
			[]string{
				"/timeout_ms", "/compensation_timeout_ms", "/retry/initial_interval_ms", "/retry/max_interval_ms",
				"/retry/multiplier", "/compensation_retry/multiplier",
			}},
		{"a multiplier below one", with(`"retry":{"multiplier":0.5}`), bad, []string{"/retry/multiplier"}},
		{"a jitter above one", with(`"compensation_retry":{"jitter":1.01}`), bad, []string{"/compensation_retry/jitter"}},
		{"an unknown class", with(`"retry":{"retry_on":["timeout","refused"]}`), bad, []string{"/retry/retry_on/1"}},
		{"classes that are no list", with(`"retry":{"retry_on":"timeout"}`), bad, []string{"/retry/retry_on"}},
		{"a class that is not text", with(`"retry":{"retry_on":[5]}`), bad, []string{"/retry/retry_on/0"}},
		{"metadata that is not an object", flow(step("s", `"metadata":[1]`)), bad, []string{"/steps/0/metadata"}},
		{"a step's policy", flow(step("s", `"retry":{"max_attempts":-1}`, `"compensation_retry":{"max_interval_ms":0}`)), bad, []string{"/steps/0/retry/max_attempts", "/steps/0/compensation_retry/max_interval_ms"}},
		{"no steps at all", `{"name":"w"}`, workflow.CodeEmpty, []string{"/steps"}},
		{"null steps", `{"name":"w","steps":null}`, workflow.CodeEmpty, []string{"/steps"}},
		{"an empty list of steps", flow(), workflow.CodeEmpty, []string{"/steps"}},
		{"steps that are no list", `{"name":"w","steps":{}}`, bad, []string{"/steps"}},
		{"too many steps", flow(step("a"), step("b"), step("c"), step("d")), workflow.CodeTooManySteps, []string{"/steps"}},
		{"a step that is not an object", flow(step("a"), `"b"`), bad, []string{"/steps/1"}},
		{"an unknown field in a step", flow(step("s", `"timeout":1`)), bad, []string{"/steps/0/timeout"}},
		{"two steps of one name", flow(step("a"), step("b"), step("a")), workflow.CodeDuplicateStep, []string{"/steps/2/name"}},
		{"no action", flow(`{"name":"s","compensation":"none"}`), bad, []string{"/steps/0/action"}},
		{"an action that is not an object", acting(`"http://h/"`), bad, []string{"/steps/0/action"}},
		{"an action without transport", acting(`{}`), bad, []string{"/steps/0/action/http"}},
		{"an unknown transport", acting(`{"grpc":{}}`), bad, []string{"/steps/0/action/grpc", "/steps/0/action/http"}},
		{"a transport that is not an object", acting(`{"http":[]}`), bad, []string{"/steps/0/action/http"}},
		{"a method that changes nothing", acting(`{"http":{"url":"http://h/","method":"GET"}}`), bad, []string{"/steps/0/action/http/method"}},
		{"a method in lower case", acting(`{"http":{"url":"http://h/","method":"post"}}`), bad, []string{"/steps/0/action/http/method"}},
		{"an unknown field in a call", acting(`{"http":{"url":"http://h/","query":1}}`), bad, []string{"/steps/0/action/http/query"}},
		{"no URL", acting(`{"http":{}}`), workflow.CodeInvalidURL, []string{"/steps/0/action/http/url"}},
		{"no compensation", flow(`{"name":"s","action":{"http":{"url":"http://h/"}}}`), workflow.CodeMissingCompensation, []string{"/steps/0/compensation"}},
		{"a null compensation", undoing(`null`), workflow.CodeMissingCompensation, []string{"/steps/0/compensation"}},
		{"another word than none", undoing(`"None"`), workflow.CodeMissingCompensation, []string{"/steps/0/compensation"}},
		{"a compensation that is a list", undoing(`[]`), bad, []string{"/steps/0/compensation"}},
		{"a compensation without transport", undoing(`{}`), bad, []string{"/steps/0/compensation/http"}},
		{"a compensation with a bad URL", undoing(`{"http":{"url":"ftp://h/"}}`), workflow.CodeInvalidURL, []string{"/steps/0/compensation/http/url"}},
		{"headers that are no object", headers(`["a"]`), bad, []string{"/steps/0/action/http/headers"}},
		{"a header that is not text", headers(`{"X-A":5}`), bad, []string{"/steps/0/action/http/headers/X-A"}},
		{"dependencies that are no list", flow(step("a"), step("b", `"depends_on":"a"`)), bad, []string{"/steps/1/depends_on"}},
		{"a dependency that is not text", flow(step("a"), step("b", `"depends_on":["a",5]`)), bad, []string{"/steps/1/depends_on/1"}},
		{"dependencies that are not all texts are not looked at", flow(step("a"), step("b", `"depends_on":[5,"ghost"]`)), bad, []string{"/steps/1/depends_on/0"}},
		{"an unknown dependency", flow(step("a", `"depends_on":["x"]`)), workflow.CodeUnknownDependency, []string{"/steps/0/depends_on/0"}},
		{"the empty dependency", flow(step("a"), step("b", `"depends_on":["a",""]`)), workflow.CodeUnknownDependency, []string{"/steps/1/depends_on/1"}},
		{"a step that waits for itself", flow(step("a"), step("b", `"depends_on":["a","b"]`)), workflow.CodeCyclic, []string{"/steps/1/depends_on/1"}},
		{"steps that wait for each other", flow(step("a", `"depends_on":["b"]`), step("b", `"depends_on":["a"]`)), workflow.CodeCyclic, []string{"/steps"}},
		{"more dependencies than steps", flow(step("a"), step("b", `"depends_on":["a","a","a"]`)), bad, []string{"/steps/1/depends_on"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limits := workflow.Limits{MaxSteps: 3}
			d, err := workflow.ParseJSON([]byte(tt.src), limits)
			code, got := mistakes(err)
			var pointers []string
			for _, g := range got {
				pointer, own, _ := strings.Cut(g, " ")
				pointers = append(pointers, pointer)
				if own != code {
					t.Errorf("the problem at %q has code %s, the whole %s", pointer, own, code)
				}
			}
			if d != nil || fault.KindOf(err) != fault.Invalid || code != tt.code || !cmp.Equal(tt.pointers, pointers) {
				t.Errorf(
					"got %v, code %s at %q (%v); want no definition, code %s at %q",
					d,
					code,
					pointers,
					err,
					tt.code,
					tt.pointers,
				)
			}
			// JSON is also YAML, so the same text must give the same result.
			_, yamlErr := workflow.ParseYAML([]byte(tt.src), limits)
			if diff := cmp.Diff(fmt.Sprint(err), fmt.Sprint(yamlErr)); diff != "" {
				t.Errorf("as YAML (-JSON +YAML):\n%s", diff)
			}
		})
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	src := `{"nmae":"x","timeout_ms":-1,"retry":{"jitter":2,"retry_on":["never"]},"steps":[
	 {"name":"a","action":{"http":{"url":"nowhere","method":"GET","headers":{"Host":"x","a b":"y"}}},"depends_on":["ghost"]},
	 {"name":"b","compensation":{"http":{"url":"http://u:p@h/"}},"retry":[],"depends_on":["b"]}
	]}`
	want := []string{
		problem("/nmae", workflow.CodeInvalid),
		problem("/name", workflow.CodeInvalid),
		problem("/timeout_ms", workflow.CodeInvalid),
		problem("/retry/jitter", workflow.CodeInvalid),
		problem("/retry/retry_on/0", workflow.CodeInvalid),
		problem("/steps/0/action/http/method", workflow.CodeInvalid),
		problem("/steps/0/action/http/url", workflow.CodeInvalidURL),
		problem("/steps/0/action/http/headers/Host", workflow.CodeInvalid),
		problem("/steps/0/action/http/headers/a b", workflow.CodeInvalid),
		problem("/steps/0/compensation", workflow.CodeMissingCompensation),
		problem("/steps/1/retry", workflow.CodeInvalid),
		problem("/steps/1/action", workflow.CodeInvalid),
		problem("/steps/1/compensation/http/url", workflow.CodeInvalidURL),
		problem("/steps/0/depends_on/0", workflow.CodeUnknownDependency),
		problem("/steps/1/depends_on/0", workflow.CodeCyclic),
	}
	_, err := workflow.ParseJSON([]byte(src), workflow.Limits{})
	code, got := mistakes(err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
	if code != workflow.CodeInvalid {
		t.Errorf("code of several kinds = %s, want %s", code, workflow.CodeInvalid)
	}
	if detail := fault.As(err).Detail; !strings.Contains(detail, "and 14 more") {
		t.Errorf("the detail does not say how many more: %q", detail)
	}
}

func TestADuplicateNamesItsDouble(t *testing.T) {
	_, err := workflow.ParseJSON([]byte(flow(step("b"), step("a"), step("a"))), workflow.Limits{})
	want := `WORKFLOW_DUPLICATE_STEP: /steps/2/name: step "a" is already defined at /steps/1`
	if fmt.Sprint(err) != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestAHostileDefinitionGetsAShortAnswer(t *testing.T) {
	var src strings.Builder
	src.WriteString(`{"name":"w"`)
	for i := range 50_000 {
		fmt.Fprintf(&src, `,"f%d":1`, i)
	}
	src.WriteString(`}`)
	_, err := workflow.ParseJSON([]byte(src.String()), workflow.Limits{})
	if _, got := mistakes(err); len(got) != 100 {
		t.Errorf("%d mistakes are listed, want 100", len(got))
	}
}

func TestAHundredStepsAreAllowedUnlessConfigured(t *testing.T) {
	steps := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, step(fmt.Sprintf("s%d", i)))
		}
		return flow(all...)
	}
	for _, tt := range []struct {
		steps, limit int
		ok           bool
	}{{100, 0, true}, {101, 0, false}, {2, 2, true}, {3, 2, false}, {150, 200, true}} {
		_, err := workflow.ParseJSON([]byte(steps(tt.steps)), workflow.Limits{MaxSteps: tt.limit})
		if ok := err == nil; ok != tt.ok {
			t.Errorf("%d steps with MaxSteps %d: %v", tt.steps, tt.limit, err)
		}
		if !tt.ok && !fault.IsCode(err, workflow.CodeTooManySteps) {
			t.Errorf("%d steps with MaxSteps %d: code of %v", tt.steps, tt.limit, err)
		}
	}
}
