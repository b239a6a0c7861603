package certification

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/fault"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Checks every transition of a certification from every state.
func TestACertificationEndsOnce(t *testing.T) {
	for _, state := range States {
		c := Certification{State: state, Version: 3}
		err := c.Canceled(noon)
		if ended := state.Ended(); (err != nil) != ended || (len((&Certification{State: state}).Actions()) == 0) != ended {
			t.Errorf("%s: %v", state, err)
		}
		if err == nil && (c.State != Canceled || c.Version != 4 || c.EndedAt == nil || len(c.Actions()) > 0) {
			t.Errorf("%s: canceled, it is %+v", state, c)
		}
		if err != nil && !fault.IsCode(err, CodeConflict) {
			t.Error(err)
		}
	}
}

func TestNodesThatDieBeginItAgainUntilItIsEnough(t *testing.T) {
	c := Certification{State: Pending, Played: 7}
	for n := 1; n <= MaxAttempts; n++ {
		if c.Began(noon); c.State != Running || c.Attempt != n || c.Played != 0 || *c.StartedAt != noon {
			t.Fatalf("attempt %d: %+v", n, c)
		}
	}
	if c.Began(noon); c.State != Failed || c.Error == "" || c.EndedAt == nil {
		t.Errorf("after %d nodes: %+v", MaxAttempts, c)
	}
	damaged := Certification{State: Pending, Unreadable: true}
	if damaged.Began(noon); damaged.State != Failed || damaged.Attempt != 0 {
		t.Errorf("without its request: %+v", damaged)
	}
}

func TestTheVerdictFollowsFromTheReport(t *testing.T) {
	broken := []Finding{{Code: "done_again", Vectors: []string{"a"}}}
	for name, tt := range map[string]struct {
		report Report
		why    error
		state  State
		want   Verdict
	}{
		"all was tried":         {Report{Played: []string{"a"}, Effects: true}, nil, Completed, Certified},
		"no effects":            {Report{Played: []string{"a"}}, nil, Completed, Incomplete},
		"not all was tried":     {Report{Played: []string{"a"}, Effects: true, Untried: []Untried{{}}}, nil, Completed, Incomplete},
		"a step it lacks":       {Report{Played: []string{"a"}, Effects: true, Untried: []Untried{{Inapplicable: true}}}, nil, Completed, Certified},
		"a breach":              {Report{Played: []string{"a"}, Effects: true, Findings: broken}, nil, Completed, Breaches},
		"a breach, then no end": {Report{Findings: broken}, errors.New("time is up"), Completed, Breaches},
		"nothing":               {Report{}, errors.New("it is\x00 gone" + strings.Repeat("x", 900)), Failed, ""},
	} {
		c := Certification{State: Running}
		tt.report.Finish()
		if err := c.Done(tt.report, tt.why, noon); err != nil {
			t.Fatal(err)
		}
		if c.State != tt.state || c.Verdict != tt.want || (c.Report == nil) != (tt.state == Failed) || c.EndedAt == nil {
			t.Errorf("%s: %+v", name, c)
		}
		if strings.Contains(c.Error, "\x00") || len([]rune(c.Error)) > maxError || (c.Error == "") != (tt.state != Failed) {
			t.Errorf("%s: the error is %q", name, c.Error)
		}
	}
}

func TestHostsAreComparedAsTheyAreReached(t *testing.T) {
	for url, want := range map[string]string{
		"http://Charges.example/{step}":   "charges.example",
		"http://charges.example:80/x":     "charges.example",
		"https://charges.example:443/":    "charges.example",
		"https://charges.example:80/":     "charges.example:80",
		"http://127.0.0.1:9001/charges":   "127.0.0.1:9001",
		"http://[::1]:9001/":              "[::1]:9001",
		"http://[2001:DB8::1]/":           "[2001:db8::1]",
		"http://{step}.example/":          "step.example",
		"charges.example":                 "",
		"ftp://charges.example":           "",
		"http:///path":                    "",
		"http://charges.example:port/":    "",
		"":                                "",
		"https://user:word@host.example/": "host.example",
	} {
		if got := HostOf(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

func TestReportsOfExaminationsAreAccepted(t *testing.T) {
	for name, tt := range map[string]struct {
		report Report
		fits   bool
	}{
		"a report":             {Report{URL: "http://a.example/{step}", Findings: []Finding{{Vectors: []string{"a"}}}}, true},
		"no URL":               {Report{}, false},
		"no host":              {Report{URL: "http://"}, false},
		"a password":           {Report{URL: "http://me:word@a.example/"}, false},
		"a host without end":   {Report{URL: "http://" + strings.Repeat("a", 400)}, false},
		"a finding of nothing": {Report{URL: "http://a.example/", Findings: []Finding{{Code: "a"}}}, false},
	} {
		if err := tt.report.CheckReport(); (err == nil) != tt.fits || err != nil && !fault.IsCode(err, CodeInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := Certification{}
	if err := c.Done(Report{Version: strings.Repeat("1", 200)}, nil, noon); err != nil || len(c.Examiner) != maxVersion {
		t.Errorf("%v, %q", err, c.Examiner)
	}
}

func TestWhatCannotBeExaminedIsNamed(t *testing.T) {
	refused := func(url string) string {
		if strings.Contains(url, "denied") {
			return "the server may not connect to it"
		}
		return ""
	}
	for want, a := range map[string]Asked{
		"":                               {URL: "http://a.example/{step}", Effects: "https://b.example/?x=1"},
		"/url":                           {},
		"/url /compensation_url":         {URL: "http://denied/", Compensation: "a.example"},
		"/effects_url":                   {URL: "http://a.example", Effects: "http://me:word@a.example"},
		"/payload":                       {URL: "http://a.example", Payload: make([]byte, MaxPayload+1)},
		"/compensation_url /effects_url": {URL: "http://a.example", Compensation: "ftp://a.example", Effects: "http://denied/"},
		"/later":                         {URL: "http://unreachable", Later: true, LaterMS: 100},
		"/later_ms":                      {URL: "http://a.example", LaterMS: 100},
		"/race_seconds":                  {URL: "http://a.example", Later: true, RaceSeconds: 1},
	} {
		var got []string
		err := a.Check(refused, a.URL != "http://unreachable")
		if f := fault.As(err); f != nil {
			for _, field := range f.Fields {
				got = append(got, field.Pointer)
			}
		}
		if strings.Join(got, " ") != want || (err != nil) != (want != "") {
			t.Errorf("%+v: %v, want %q", a, got, want)
		}
	}
}
