package web

import "testing"

func TestTheTagIgnoresWhatChangesByItself(t *testing.T) {
	page := func(now, ago, state, curl string) []byte {
		return []byte(`<body data-now="` + now + `"><p>It <b>` + state + `</b> <time datetime="2026">` + ago +
			`</time> and <time data-fixed>` + ago + `</time></p><footer id="f"><time datetime="x">` + curl + `</footer></body>`)
	}
	first := tagOf(page("12:00", "1 s ago", "runs", "curl a"))
	if again := tagOf(page("12:01", "61 s ago", "runs", "curl b")); again != first {
		t.Errorf("%s, then %s, though only times have changed", first, again)
	}
	if other := tagOf(page("12:00", "1 s ago", "rests", "curl a")); other == first {
		t.Errorf("%s for two states", first)
	}
	for _, odd := range []string{
		"", "<time ", "<footer", `data-now="`, `data-now="x`, "<time ></time>", "</footer><footer",
	} {
		if tag := tagOf([]byte(odd)); len(tag) != 28 {
			t.Errorf("%q: tag %s", odd, tag)
		}
	}
}
