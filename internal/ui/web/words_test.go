package web

import (
	"slices"
	"testing"
	"time"
)

func TestTextsOfTheAPIAreSentences(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "make the next attempt now": "Make the next attempt now.", "Done!": "Done!", "état: failed.": "État: failed.",
		"it waits until 2026-11-23T18:51:32.1Z for attempt 5": "It waits until 2026-11-23 18:51:32 UTC for attempt 5.",
		"at 2026-13-23T18:51:32Z":                             "At 2026-13-23T18:51:32Z.",
	} {
		if got := Prose(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestTextsOfTheAPINameThings(t *testing.T) {
	const id = "01a21e29-3c68-7b2a-9d1e-0123456789ab"
	for text, want := range map[string][]Part{
		"":              {{}},
		"nothing named": {{Text: "nothing named"}},
		"run " + id + " is active": {
			{Text: ""}, {Kind: "run", ID: id, Path: "/ui/runs/" + id}, {Text: " is active"},
		},
		"by redrive " + id:           {{Text: "by "}, {Kind: "redrive", ID: id, Path: "/ui/redrives/" + id}, {Text: ""}},
		"the letter " + id + "0 <b>": {{Text: "the letter " + id + "0 <b>"}},
	} {
		if got := Named(text); !slices.Equal(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestMomentsOfASequence(t *testing.T) {
	first := time.Date(2026, 11, 23, 18, 51, 32, 100_900_000, time.FixedZone("", 3600))
	for d, want := range map[time.Duration]string{
		0: "17:51:32.100", 300 * time.Microsecond: "+0 ms", 42 * time.Millisecond: "+42 ms",
		1250 * time.Millisecond: "+1.3 s",
		72 * time.Second:        "+1 min 12 s", 26 * time.Hour: "+1 d 2 h", -4 * time.Second: "−4 s",
	} {
		if got := Moment(first, first.Add(d)); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestAgesAreWholeSeconds(t *testing.T) {
	now := time.Now()
	for d, want := range map[time.Duration]string{
		300 * time.Millisecond: "just now", 8300 * time.Millisecond: "8 s ago", 72 * time.Second: "1 min 12 s ago",
		-4700 * time.Millisecond: "in 4 s", -20 * time.Millisecond: "in 1 s", -26 * time.Hour: "in 1 d 2 h",
		12*time.Hour - time.Second: "11 h 59 min ago",
	} {
		if got := Ago(now, now.Add(-d)); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
