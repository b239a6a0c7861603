package certification

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// State is the state of a certification.
type State string

// States of certifications.
const (
	Pending   State = "PENDING" // waits for a node, or until another test of the host has ended
	Running   State = "RUNNING" // a node is testing the participant
	Completed State = "COMPLETED"
	Failed    State = "FAILED" // the participant could not be tested
	Canceled  State = "CANCELED"
)

// States lists every state.
var States = []State{Pending, Running, Completed, Failed, Canceled}

// Ended reports whether a state is final.
func (s State) Ended() bool { return s != Pending && s != Running }

// Verb is an action of users on a certification.
type Verb string

// Cancel is the only verb.
const Cancel Verb = "cancel"

// Verbs lists every verb.
var Verbs = []Verb{Cancel}

// Verdict is the result of a completed certification.
type Verdict string

// Verdicts.
const (
	Certified  Verdict = "CERTIFIED"
	Breaches   Verdict = "BREACHES"
	Incomplete Verdict = "INCOMPLETE" // no breach, but not everything was tested
)

// Verdicts lists every verdict.
var Verdicts = []Verdict{Certified, Breaches, Incomplete}

// MaxAttempts is how many nodes may start a certification before it fails: a participant whose test
// crashes nodes must not crash all of them.
const MaxAttempts = 3

// MaxPayload limits the payload, because every finding shows calls that contain it.
const MaxPayload = 64 << 10

// Asked says where a participant is and how it is to be tested.
type Asked struct {
	URL, Compensation, Effects string
	Step                       string
	Payload                    json.RawMessage
	RaceSeconds                int
	TimeoutMS                  int
	Later                      bool // it answers later, and only that is tested
	LaterMS                    int  // how long a report may take; 0 means 30 seconds
}

// Certification is one test of a participant for a tenant.
type Certification struct {
	Asked

	ID       uuid.UUID
	TenantID uuid.UUID
	Version  int64 // grows with every change of state
	State    State
	Host     string // host of the URL; only one test per host runs at a time
	Attempt  int    // number of nodes that have started it
	Played   int
	Planned  int

	Verdict                      Verdict
	Findings, Warnings, NotTried int
	Examiner                     string // version of the Skald that ran the test
	Error                        string
	Report                       json.RawMessage // JSON of Report; nil in lists, and unless COMPLETED
	Unreadable                   bool            // the stored report cannot be read

	Reason, Actor, ActorName string
	RequestHash              []byte
	CreatedAt                time.Time
	StartedAt, EndedAt       *time.Time
}

// Place returns the position in a list.
func (c *Certification) Place() page.TimeID { return page.TimeID{At: c.CreatedAt, ID: c.ID} }

// Repeats reports whether a request with the Idempotency-Key of this certification is a repeat of
// the one that created it.
func (c *Certification) Repeats(hash []byte) bool { return bytes.Equal(c.RequestHash, hash) }

// Actions lists the possible verbs. It never returns nil.
func (c *Certification) Actions() []Verb {
	if c.State.Ended() {
		return []Verb{}
	}
	return []Verb{Cancel}
}

// Canceled cancels the certification. Fault: Conflict if it has ended.
func (c *Certification) Canceled(at time.Time) error {
	if c.State.Ended() {
		return fault.New(fault.Conflict, CodeConflict, "the certification is %s and cannot be canceled", c.State).
			Allowing([]string{})
	}
	c.State, c.Version, c.EndedAt = Canceled, c.Version+1, &at
	return nil
}

// Began records that a node takes the certification. It starts from the beginning, unless too many
// nodes have already started it.
func (c *Certification) Began(at time.Time) {
	c.Version++
	switch {
	case c.Unreadable:
		c.failed("the stored request cannot be read", at)
		return
	case c.Attempt >= MaxAttempts:
		c.failed("the nodes that tested the participant died or were stopped before they finished", at)
		return
	}
	c.State, c.Attempt, c.Played, c.Planned = Running, c.Attempt+1, 0, 0
	if c.StartedAt == nil {
		c.StartedAt = &at
	}
}

// Done completes the certification with its findings, or fails it with the reason why the
// participant could not be tested. Findings count even if the test was aborted afterwards.
func (c *Certification) Done(r Report, why error, at time.Time) error {
	c.Version++
	c.Examiner = plaintext.Text(r.Version, plaintext.Characters(maxVersion))
	if why != nil && len(r.Findings) == 0 {
		c.failed(why.Error(), at)
		return nil
	}
	var err error
	if c.Report, err = json.Marshal(r); err != nil {
		return err
	}
	c.Verdict, c.Findings, c.Warnings, c.NotTried = r.Verdict(), len(r.Findings), len(r.Warnings), len(r.Untried)
	c.Played, c.Planned = len(r.Played), max(c.Planned, len(r.Played))
	c.State, c.EndedAt = Completed, &at
	return nil
}

// Reported returns the report. Fault: Conflict if there is none or it cannot be read.
func (c *Certification) Reported() (r Report, err error) {
	switch {
	case c.Report != nil:
		return r, json.Unmarshal(c.Report, &r)
	case c.State == Completed:
		return r, fault.New(fault.Conflict, CodeNoReport, "the stored report of the certification cannot be read")
	}
	return r, fault.New(fault.Conflict, CodeNoReport, "the certification is %s; only a completed one has a report", c.State)
}

// Length limits of texts, in characters.
const (
	maxError   = 500
	maxVersion = 100
)

func (c *Certification) failed(why string, at time.Time) {
	c.Error = plaintext.Text(why, plaintext.Characters(maxError))
	c.State, c.EndedAt = Failed, &at
}

// Verdict is the verdict of a report.
func (r Report) Verdict() Verdict {
	switch {
	case len(r.Findings) > 0:
		return Breaches
	case r.Certified:
		return Certified
	}
	return Incomplete
}

// HostOf returns the host of a URL in the form that certifications store: in lower case, with the
// port unless it is the scheme's default. It returns "" if the text is not a valid URL of a
// participant.
func HostOf(text string) string {
	u, err := url.Parse(filled(text))
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	host, port := bracketed(strings.ToLower(u.Hostname())), u.Port()
	if port == "" || port == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		return host
	}
	return host + ":" + port
}

const maxHost = 300

// bracketed returns a host as written in URLs.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// filled returns a URL with a sample name in place of the step.
func filled(text string) string { return strings.ReplaceAll(text, "{step}", "step") }

// Check returns what is wrong with a request. refused returns why the server must not call a URL,
// or "" if it may. reachable says whether participants can send reports to this server.
func (a *Asked) Check(refused func(url string) string, reachable bool) error {
	var wrong []fault.Field
	invalid := func(member string, is bool, why string) {
		if is {
			wrong = append(wrong, fault.Field{Pointer: "/" + member, Code: "invalid", Message: why})
		}
	}
	for _, member := range []struct{ name, text string }{
		{"url", a.URL}, {"compensation_url", a.Compensation}, {"effects_url", a.Effects},
	} {
		why := ""
		switch u, err := url.Parse(filled(member.text)); {
		case member.text == "" && member.name != "url":
		case err != nil || HostOf(member.text) == "" || len(HostOf(member.text)) > maxHost:
			why = "must be an http or https URL"
		case u.User != nil:
			why = "must not contain a user or password"
		default:
			why = refused(filled(member.text))
		}
		invalid(member.name, why != "", why)
	}
	invalid("later", a.Later && !reachable, "participants cannot report to this server: set server.public_url")
	invalid("later_ms", a.LaterMS > 0 && !a.Later, "requires later")
	invalid("race_seconds", a.RaceSeconds > 0 && a.Later, "cannot be combined with later: races are not tested for calls that are answered later")
	if len(a.Payload) > MaxPayload {
		wrong = append(wrong, fault.Field{Pointer: "/payload", Code: "too_large", Message: "must be at most 64 KiB"})
	}
	if len(wrong) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, CodeInvalid, "the certification is invalid").With(wrong...)
}

// CheckReport returns what is wrong with a report of a test that was run elsewhere.
func (r Report) CheckReport() error {
	u, err := url.Parse(filled(r.URL))
	switch {
	case err != nil || u.User != nil || HostOf(r.URL) == "" || len(HostOf(r.URL)) > maxHost:
		return NoReport("/report/url")
	case slices.ContainsFunc(r.Findings, func(f Finding) bool { return len(f.Vectors) == 0 }):
		return NoReport("/report/findings")
	}
	return nil
}

// NoReport is the fault for a report with a member that no test produces.
func NoReport(member string) error {
	return fault.New(fault.Invalid, CodeInvalid, "this is not the report of a certification").
		With(fault.Field{Pointer: member, Code: "invalid", Message: "is not valid in the report of a certification"})
}
