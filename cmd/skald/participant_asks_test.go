package main

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

// Another machine is called only after consent, for each of its URLs.
func TestCertifyAsksBeforeItCallsAnotherMachine(t *testing.T) {
	const here, there = "http://127.0.0.1:9001/", "http://charges.example/{step}"
	for name, tt := range map[string]struct {
		p      participantCertify
		typed  string
		absent bool
		asked  int
		may    bool
	}{
		"this machine":               {participantCertify{URL: here}, "", false, 0, true},
		"by its name":                {participantCertify{URL: "http://localhost:9001/"}, "", true, 0, true},
		"by IPv6":                    {participantCertify{URL: "http://[::1]:9001/{step}"}, "", true, 0, true},
		"by IPv4 in IPv6":            {participantCertify{URL: "http://[::ffff:127.0.0.1]/"}, "", true, 0, true},
		"another":                    {participantCertify{URL: there}, "y\n", false, 1, true},
		"yes":                        {participantCertify{URL: there}, " Yes \n", false, 1, true},
		"no":                         {participantCertify{URL: there}, "n\n", false, 1, false},
		"only Enter":                 {participantCertify{URL: there}, "\n", false, 1, false},
		"the end of input":           {participantCertify{URL: there}, "", false, 1, false},
		"a pipeline":                 {participantCertify{URL: there}, "y\n", true, 0, false},
		"a pipeline, agreed":         {participantCertify{URL: there, Yes: true}, "", true, 0, true},
		"its compensation":           {participantCertify{URL: here, Compensation: there}, "n\n", false, 1, false},
		"its effects":                {participantCertify{URL: here, Effects: there}, "n\n", false, 1, false},
		"each of them":               {participantCertify{URL: there, Effects: there}, "y\ny\n", false, 2, true},
		"not all of them":            {participantCertify{URL: there, Effects: there}, "y\nn\n", false, 2, false},
		"a name that looks like one": {participantCertify{URL: "http://127.0.0.1.example/"}, "n\n", false, 1, false},
		"a private network":          {participantCertify{URL: "http://10.0.0.5/"}, "n\n", false, 1, false},
		"a user in front of it":      {participantCertify{URL: "http://127.0.0.1@charges.example/"}, "n\n", false, 1, false},
	} {
		var out bytes.Buffer
		err := tt.p.mayCall(&person{bufio.NewReader(strings.NewReader(tt.typed)), &out, tt.absent})
		if asked := strings.Count(out.String(), "[y/N]"); asked != tt.asked || (err == nil) != tt.may {
			t.Errorf("%s: asked %d times, %v", name, asked, err)
		}
		if err != nil && !strings.Contains(err.Error(), "--yes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCertifyWaitsForTheRestartThatItAsksFor(t *testing.T) {
	var out bytes.Buffer
	// The user agrees and then presses Enter: both lines may arrive at once.
	who := &person{bufio.NewReader(strings.NewReader("y\n\n")), &out, false}
	p := participantCertify{URL: "http://charges.example/", AskRestart: true}
	if err := p.mayCall(who); err != nil {
		t.Fatal(err)
	}
	if err := p.restart(who)(t.Context()); err != nil || !strings.HasSuffix(out.String(), "press Enter: ") {
		t.Errorf("%v, %s", err, out.String())
	}
	if err := p.restart(who)(t.Context()); err == nil {
		t.Error("the end of input counts as a restart")
	}
}
