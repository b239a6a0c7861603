package web

import (
	"encoding/json"
	"testing"

	"github.com/skald-saga/skald/api/client"
)

func TestACallIsShownInTheSameWordsForActionAndUndo(t *testing.T) {
	for _, tt := range []struct{ step, kind, call, undo string }{
		{
			`{"action": {"http": {"url": "https://pay.example/charge?mode=live"}}, "compensation": "none"}`,
			"http", "POST pay.example/charge?mode=live", "",
		},
		{
			`{"action": {"http": {"method": "PUT", "url": "http://h:1/a"}}, "compensation": {"http": {"method": "DELETE", "url": "http://h:1/a"}}}`,
			"http", "PUT h:1/a", "DELETE h:1/a",
		},
		{`{"action": {"http": {"url": "not a URL"}}, "compensation": {"job": "refund"}}`, "http", "POST not a URL", "job refund"},
		{
			`{"action": {"http": {"participant": "stock"}}, "compensation": {"http": {"method": "PUT", "participant": "stock", "path": "/a?b=${payload.c}"}}}`,
			"http", "POST participant stock /", "PUT participant stock /a?b=${payload.c}",
		},
		{`{"job": "bill", "compensation": "none"}`, "job", "job bill", ""},
		{`{"action": {"job": "bill"}, "compensation": {}}`, "job", "job bill", ""},
		{`{"compensation": "none"}`, "", "", ""},
	} {
		var st client.Step
		if err := json.Unmarshal([]byte(tt.step), &st); err != nil {
			t.Fatal(err)
		}
		action := ActionOf(&st)
		kind, call, undo := CallKind(action), CallWords(action), CallWords(UndoOf(&st))
		if kind != tt.kind || call != tt.call || undo != tt.undo {
			t.Errorf("%s: %q, %q, undo %q", tt.step, kind, call, undo)
		}
	}
}
