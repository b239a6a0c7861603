package registry

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Settings are the part of a participant that people set. They are stored as JSON.
type Settings struct {
	BaseURL     string            `json:"base_url"`
	Headers     map[string]string `json:"headers,omitempty"` // added to calls that name the participant
	TimeoutMS   int64             `json:"timeout_ms,omitempty"`
	MaxInFlight int               `json:"max_in_flight,omitempty"` // 0 means no limit
	Outage      Outage            `json:"outage"`
}

// Outage says when a participant is held, and how it is tried and released.
type Outage struct {
	FailureRatio  float64 `json:"failure_ratio"`
	MinCalls      int64   `json:"min_calls"`
	WindowMS      int64   `json:"window_ms"`
	CanaryEveryMS int64   `json:"canary_every_ms"`
	Release       Release `json:"release"`
}

// Release says how fast waiting calls are let through.
type Release struct {
	StartPerS float64 `json:"start_per_s"`
	Factor    float64 `json:"factor"`
}

// DefaultOutage provides the values of omitted members.
var DefaultOutage = Outage{
	FailureRatio: 0.5, MinCalls: 20, WindowMS: 30_000, CanaryEveryMS: 10_000, Release: Release{StartPerS: 10, Factor: 2},
}

// Or returns o with zero members taken from base.
func (o Outage) Or(base Outage) Outage {
	if o.FailureRatio == 0 {
		o.FailureRatio = base.FailureRatio
	}
	if o.MinCalls == 0 {
		o.MinCalls = base.MinCalls
	}
	if o.WindowMS == 0 {
		o.WindowMS = base.WindowMS
	}
	if o.CanaryEveryMS == 0 {
		o.CanaryEveryMS = base.CanaryEveryMS
	}
	if o.Release.StartPerS == 0 {
		o.Release.StartPerS = base.Release.StartPerS
	}
	if o.Release.Factor == 0 {
		o.Release.Factor = base.Release.Factor
	}
	return o
}

// Ratio is the rule for judging the calls in the window.
func (o *Outage) Ratio() retry.Ratio { return retry.Ratio{Max: o.FailureRatio, From: o.MinCalls} }

// Window is the period over which calls are counted.
func (o *Outage) Window() time.Duration { return time.Duration(o.WindowMS) * time.Millisecond }

func (o *Outage) canaryEvery() time.Duration {
	return time.Duration(o.CanaryEveryMS) * time.Millisecond
}

// reserved are names that have API paths of their own.
var reserved = []string{"certifications", "certify"}

// Checked returns the settings in their canonical form. Its fault is Invalid with CodeInvalid and
// lists every mistake.
func (s Settings) Checked(name string) (Settings, error) {
	var wrong fault.Mistakes
	switch {
	case !workflow.ValidName(name):
		wrong.Add("/name", CodeInvalid,
			"must begin with a letter or digit and have only letters, digits and . _ : -, at most 255 in all")
	case slices.Contains(reserved, name):
		wrong.Add("/name", CodeInvalid, "is reserved")
	}
	base, mistake := BaseOf(s.BaseURL)
	if mistake != "" {
		wrong.Add("/base_url", CodeInvalid, "%s", mistake)
	}
	s.BaseURL = base
	seen := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(s.Headers)) {
		at, lower := "/headers/"+strictjson.Token(key), strings.ToLower(key)
		switch value := s.Headers[key]; {
		case seen[lower]:
			wrong.Add(at, CodeInvalid, "this header appears twice, with different capitalization")
		case !httpguts.ValidHeaderFieldName(key) || !expression.Has(value) && !httpguts.ValidHeaderFieldValue(value):
			wrong.Add(at, CodeInvalid, "is not a valid header")
		case workflow.OwnHeader(key):
			wrong.Add(at, CodeInvalid, "this header is set by Skald itself")
		case !expression.Has(value) && strings.Contains(value, "secrets."): // it would be sent unchanged
			wrong.Add(at, CodeInvalid, "names a secret outside of ${…}: write ${secrets.NAME}")
		case expression.Has(value):
			if why := mistakeInStanding(value); why != "" {
				wrong.Add(at, CodeInvalid, "%s", why)
			}
		}
		seen[lower] = true
	}
	s.Outage = s.Outage.Or(DefaultOutage)
	if wrong != nil {
		return s, fault.New(fault.Invalid, CodeInvalid, "%s: %s", wrong[0].Pointer, wrong[0].Message).With(wrong...)
	}
	return s, nil
}

// BaseOf returns the canonical form of a base URL, or what is wrong with it. In canonical form,
// scheme and host are in lower case, and there is no default port and no trailing slash.
func BaseOf(text string) (base, mistake string) {
	if why := workflow.MistakeInURL(text); why != "" {
		return text, why
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return text, "is not a URL"
	case u.RawQuery != "" || u.ForceQuery:
		return text, "must not have a query: calls are matched by the paths below it"
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" && port != portOf(u.Scheme) {
		host += ":" + port
	}
	return u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/"), ""
}

func portOf(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}
