package sagapages

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/skald-saga/skald/internal/ui/web"
)

// TestAnEditedInputIsSentAsAMergePatch checks that numbers keep their digits, and that changes that
// a merge patch cannot express are rejected.
func TestAnEditedInputIsSentAsAMergePatch(t *testing.T) {
	for _, c := range []struct{ original, typed, want string }{
		{`{"a": 1, "b": 2}`, `{"b":2,"a":1}`, ``},
		{`{"id": 9007199254740993}`, `{"id": 9007199254740992}`, `{"id":9007199254740992}`},
		{`{"id": 9007199254740993, "n": 1}`, `{"id": 9007199254740993, "n": 2}`, `{"n":2}`},
		{`{"a": {"b": 1, "c": 2}}`, `{"a": {"b": 1}}`, `{"a":{"c":null}}`},
		{`{"a": [1, 2]}`, `{"a": [1, null]}`, `{"a":[1,null]}`},
		{`{"a": 1}`, `[1]`, `[1]`},
		{`[1]`, `{"a": 1}`, `{"a":1}`},
		{`{"a": 1.50}`, `{"a": 1.5}`, `{"a":1.5}`},
		{`{"a": 1}`, `{"a": null}`, `refused`},
		{`{"a": 1}`, `{"a": {"b": null}}`, `refused`},
		{`{"a": 1}`, `{"a": `, `refused`},
		{`{"a": 1}`, `{"a": 1} {"a": 2}`, `refused`},
	} {
		got, err := patchOf([]byte(c.original), c.typed)
		shown := string(got)
		if err != nil {
			shown = "refused"
		}
		if shown != c.want {
			t.Errorf("%s edited to %s: %q, want %q", c.original, c.typed, shown, c.want)
		}
	}
}

func TestDocumentsAreComparedByTheirLines(t *testing.T) {
	if lines, ok := compare([]byte(`{"a":1,"b":2}`), []byte(`{"b":2,"a":1}`)); !ok || len(lines) != 0 {
		t.Errorf("equal documents: %v %v", lines, ok)
	}
	lines, ok := compare([]byte(`{"id":9007199254740993}`), []byte(`{"id":9007199254740992}`))
	if !ok || len(lines) != 4 || lines[1].Text != `  "id": 9007199254740993` || lines[2].Sign != "+" {
		t.Errorf("%v %+v", ok, lines)
	}
	if _, ok := compare([]byte(`{`), nil); ok {
		t.Error("something that is no JSON was compared")
	}
}

func TestCellsOfASheetAreNoFormulas(t *testing.T) {
	for cell, want := range map[string]string{`=1+1`: `'=1+1`, `-1`: `'-1`, `order`: `order`, ``: ``} {
		if got := harmless(cell); got != want {
			t.Errorf("%q: %q", cell, got)
		}
	}
}

func TestAMemberOfTheMetadataIsAskedFor(t *testing.T) {
	for asked, want := range map[string]string{
		`metadata_path=region&metadata_value=eu`:                               `{"region":"eu"}`,
		`metadata_path=a.id&metadata_value=9007199254740993`:                   `{"a":{"id":9007199254740993}}`,
		`metadata_path=a.b&metadata_value="1"&metadata=` + `{"a":{"c":true}}`:  `{"a":{"b":"1","c":true}}`,
		`metadata_path=a&metadata_value=x&metadata=no&status=FAILED&cursor=c1`: `{"a":"x"}`,
	} {
		query, err := url.ParseQuery(asked)
		if err != nil {
			t.Fatal(err)
		}
		p := withMetadata(&web.Visit{Request: httptest.NewRequest("GET", "/ui/sagas?"+query.Encode(), nil)})
		to, err := url.Parse(string(p.Data.(web.Redirect)))
		if err != nil {
			t.Fatal(err)
		}
		got := to.Query()
		if got.Get("metadata") != want || got.Has("cursor") || got.Get("status") != query.Get("status") {
			t.Errorf("%s leads to %s", asked, to)
		}
	}
}
