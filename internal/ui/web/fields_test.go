package web

import "testing"

func TestSpansOfTimeAreWrittenWithTheirUnits(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "30 s": "30000", "30s": "30000", "250 ms": "250", "5 min": "300000", "5m": "300000", "1.5 h": "5400000",
		"1 h 30 min": "5400000", "2d": "172800000", "0.1 s": "100", "0 s": "0",
		"5": "", "-1 s": "", "1 year": "", "s": "", "1 s or so": "", "1e3 s": "", "5 0": "",
	} {
		got, err := Field{Name: "timeout_ms", Kind: "span"}.value(text)
		if want == "" {
			if err == nil {
				t.Errorf("%q is read as %s", text, got)
			}
			continue
		}
		if raw, _ := got.(interface{ MarshalJSON() ([]byte, error) }); err != nil || raw == nil {
			t.Errorf("%q: %v, %v", text, got, err)
		} else if text, _ := raw.MarshalJSON(); string(text) != want {
			t.Errorf("%q is %s, want %s", text, text, want)
		}
	}
	for ms, want := range map[string]string{
		"0": "0", "": "", "1": "1 ms", "1500": "1500 ms", "2000": "2 s", "90000": "90 s", "600000": "10 min",
		"3600000": "1 h", "5400000": "90 min", "172800000": "2 d", "9007199254740993": "9007199254740993 ms",
	} {
		if got := SpanOf(ms); got != want {
			t.Errorf("%s is %q, want %q", ms, got, want)
		}
	}
}

func TestRareFieldsAreFoldedUnlessTheySaySomething(t *testing.T) {
	fields := []Field{
		{Name: "first"}, {Group: "What", Name: "a"}, {Name: "b", Rare: true, Hint: "10 min", Value: "10 min"},
		{Group: "When", Name: "c", Rare: true, Value: "x"},
		{Group: "How", Name: "d"}, {Name: "e", Rare: true, Options: Labelled("skip", "", "all", ""), Value: "skip"},
		{Group: "Why", Name: "f", Rare: true, Problem: "wrong"},
	}
	type shape struct {
		title        string
		fields, rare int
		opened       bool
	}
	want := []shape{
		{"", 1, 0, false}, {"What", 1, 1, false}, {"When", 0, 1, true}, {"How", 1, 1, false}, {"Why", 0, 1, true},
	}
	got := (&Action{Fields: fields}).Groups()
	if len(got) != len(want) {
		t.Fatalf("%d groups, want %d", len(got), len(want))
	}
	for i, g := range got {
		if s := (shape{g.Title, len(g.Fields), len(g.Rare), g.Opened}); s != want[i] {
			t.Errorf("group %d is %+v, want %+v", i, s, want[i])
		}
	}
}
