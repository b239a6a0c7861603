package certification

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Report is the result of a certification.
type Report struct {
	URL       string    `json:"url"`
	Version   string    `json:"version"` // version of Skald
	Certified bool      `json:"certified"`
	Later     bool      `json:"later,omitempty"` // only deferred answers were tested
	Played    []string  `json:"played"`          // vectors that were completed
	Repeated  int       `json:"repeated,omitempty"`
	Effects   bool      `json:"effects_counted"`
	Findings  []Finding `json:"findings"`
	Warnings  []Warning `json:"warnings"`
	Untried   []Untried `json:"not_tried"`
}

// Finding describes one broken rule.
type Finding struct {
	Code    string   `json:"code"`
	Rule    string   `json:"rule"`
	Title   string   `json:"title"`
	Why     string   `json:"why"`
	Vector  string   `json:"vector"` // the vector to which Seen and Curl belong
	Seen    string   `json:"seen"`
	Curl    []string `json:"curl"`
	Vectors []string `json:"vectors"` // all vectors that show it
}

// Warning is behavior that is allowed but will surprise users.
type Warning struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Shown is a breach with its vector and the commands that show it.
type Shown struct {
	Vector string
	Breach Breach
	Curl   []string
}

// Findings groups breaches into one finding per cause, in the order of the list of findings.
func Findings(breaches []Shown) []Finding {
	var codes []string
	for _, b := range breaches {
		codes = append(codes, b.Breach.Code)
	}
	all := []Finding{}
	for _, f := range findings {
		var one *Finding
		for _, b := range breaches {
			if cause(b.Breach.Code, codes) != f.code {
				continue
			}
			if one == nil {
				all = append(all, Finding{Code: f.code, Rule: f.rule, Title: f.title, Why: f.why})
				one = &all[len(all)-1]
			}
			shorter := one.Vector == "" || len(b.Curl) < len(one.Curl)
			if b.Breach.Code == f.code && shorter { // not a consequence of another breach
				one.Vector, one.Seen, one.Curl = b.Vector, b.Breach.Seen, b.Curl
			}
			if !slices.Contains(one.Vectors, b.Vector) {
				one.Vectors = append(one.Vectors, b.Vector)
			}
		}
	}
	return all
}

// Format is the format of a report.
type Format string

// Formats of reports.
const (
	JSON  Format = "json"
	Text  Format = "text"  // human-readable, for a terminal
	JUnit Format = "junit" // for test result viewers
)

// In returns the report in a format.
func (r Report) In(f Format) ([]byte, error) {
	switch f {
	case Text:
		return []byte(r.Text()), nil
	case JUnit:
		return r.junit()
	}
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

// RuleName returns the name of a rule in docs/participants.md.
func RuleName(rule string) string {
	if name := map[string]string{
		"fence": "fences", "operator": "operators", "tenant": "tenants", "response": "responses", "later": "answering later",
	}[rule]; name != "" {
		return name
	}
	return "rule " + rule
}

// Text returns the report for a terminal.
func (r Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.URL)
	if r.Later {
		b.WriteString("Only calls that are answered later were tested.\n\n")
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "BREACH %s (%s)\n  %s\n  %s\n  %s: %s.\n", f.Code, RuleName(f.Rule), f.Title, f.Why, f.Vector, f.Seen)
		others := slices.DeleteFunc(slices.Clone(f.Vectors), func(v string) bool { return v == f.Vector })
		if len(others) > 0 {
			fmt.Fprintf(&b, "  Also shown by %s.\n", strings.Join(others, ", "))
		}
		for _, line := range f.Curl {
			fmt.Fprintf(&b, "    %s\n", line)
		}
		b.WriteString("\n")
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "WARNING %s\n  %s\n\n", w.Code, w.Text)
	}
	reasons := []string{}
	for _, u := range r.Untried {
		if !slices.Contains(reasons, u.Reason) {
			reasons = append(reasons, u.Reason)
		}
	}
	for _, reason := range reasons {
		var names []string
		for _, u := range r.Untried {
			if u.Reason == reason {
				names = append(names, u.Vector)
			}
		}
		fmt.Fprintf(&b, "NOT TRIED %s\n  %s\n\n", strings.Join(names, ", "), reason)
	}
	if !r.Effects {
		b.WriteString("Effects were not counted: without --effects, a call that is applied twice but gets equal responses goes unnoticed.\n")
	}
	if r.Repeated > 0 {
		fmt.Fprintf(&b, "Repetitions of race tests under load: %d.\n", r.Repeated)
	}
	fmt.Fprintf(&b, "%s (vectors played: %d, not tried: %d; findings: %d, warnings: %d)\n",
		r.verdict(), len(r.Played), len(r.Untried), len(r.Findings), len(r.Warnings))
	return b.String()
}

// Finish sets the verdict. A participant is certified if everything was tested and its effects were
// counted.
func (r *Report) Finish() {
	missing := slices.ContainsFunc(r.Untried, func(u Untried) bool { return !u.Inapplicable })
	r.Certified = len(r.Findings) == 0 && len(r.Played) > 0 && !missing && r.Effects
}

func (r Report) verdict() string {
	switch {
	case r.Certified:
		return "certified"
	case len(r.Findings) > 0:
		return "breaches found"
	case len(r.Played) == 0:
		return "nothing could be tested"
	}
	return "no breach found, but not everything was tested"
}
