package workflow

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/http/httpguts"

	"github.com/skald-saga/skald/internal/strictjson"
)

const (
	maxName = 255 // VARCHAR(255) in seeds 1 and 2
	maxMS   = 366 * 86400 * 1000

	maxRetentionMS = 100 * maxMS
)

func (r *reader) definition(doc any, l Limits) *Definition {
	m := r.object(
		doc,
		"",
		"name",
		"description",
		"timeout_ms",
		"compensation_timeout_ms",
		"retry",
		"compensation_retry",
		"retention",
		"steps",
		"output",
	)
	d := &Definition{
		Name:                  r.name(m, ""),
		Description:           r.text(m, "", "description", 2000),
		TimeoutMS:             r.integer(m, "", "timeout_ms", 1, maxMS),
		CompensationTimeoutMS: r.integer(m, "", "compensation_timeout_ms", 1, maxMS),
		Retry:                 r.policy(m, "", "retry"),
		CompensationRetry:     r.policy(m, "", "compensation_retry"),
		Retention:             r.retention(m),
	}
	steps, isList := m["steps"].([]any)
	switch {
	case m == nil:
		return d
	case m["steps"] != nil && !isList:
		r.fail("/steps", CodeInvalid, "must be a list")
	case len(steps) == 0:
		r.fail("/steps", CodeEmpty, "a workflow needs at least one step")
	case len(steps) > l.MaxSteps:
		r.fail("/steps", CodeTooManySteps, "%d steps; at most %d are allowed", len(steps), l.MaxSteps)
		return d
	}
	seen := map[string]int{}
	for i, v := range steps {
		at := fmt.Sprintf("/steps/%d", i)
		s := r.step(v, at)
		if first, twice := seen[s.Name]; twice && s.Name != "" {
			r.fail(at+"/name", CodeDuplicateStep, "step %q is already defined at /steps/%d", s.Name, first)
		}
		seen[s.Name] = i
		d.Steps = append(d.Steps, s)
	}
	r.templates(d.Steps)
	d.Output = r.output(m["output"], d.Steps)
	return d
}

// retention reads m["retention"], nil when it says nothing.
func (r *reader) retention(m map[string]any) *Retention {
	v := m["retention"]
	if v == nil {
		return nil
	}
	const at = "/retention"
	o := r.object(v, at, "completed_ms", "failed_ms")
	p := Retention{
		CompletedMS: r.integer(o, at, "completed_ms", Forever, maxRetentionMS),
		FailedMS:    r.integer(o, at, "failed_ms", Forever, maxRetentionMS),
	}
	if p == (Retention{}) {
		return nil
	}
	return &p
}

func (r *reader) step(v any, at string) Step {
	m := r.object(
		v,
		at,
		"name",
		"type",
		"action",
		"job",
		"args",
		"compensation",
		"depends_on",
		"timeout_ms",
		"retry",
		"compensation_retry",
		"metadata",
	)
	if m == nil {
		return Step{}
	}
	s := Step{
		Name:              r.name(m, at),
		DependsOn:         r.texts(m, at, "depends_on"),
		TimeoutMS:         r.integer(m, at, "timeout_ms", 1, maxMS),
		Retry:             r.policy(m, at, "retry"),
		CompensationRetry: r.policy(m, at, "compensation_retry"),
	}
	if v := m["metadata"]; v != nil {
		if _, ok := v.(map[string]any); !ok {
			r.fail(at+"/metadata", CodeInvalid, "must be an object")
		} else {
			s.Metadata = r.template(v, at+"/metadata")
		}
	}
	s.Action = r.action(m, at)
	if s.Action.Job != "" && s.Retry != nil {
		r.fail(at+"/retry", CodeInvalid, "is not allowed for a job: its definition sets the retries")
	}
	switch c := m["compensation"]; c {
	case nil:
		r.fail(at+"/compensation", CodeMissingCompensation, "step %q needs a compensation, or `compensation: none`", s.Name)
	case "none":
	default:
		if _, isText := c.(string); isText {
			r.fail(at+"/compensation", CodeMissingCompensation, `must be a call or the word "none"`)
			break
		}
		s.Compensation.Call = r.call(c, at+"/compensation")
	}
	if s.Compensation.Job != "" && s.CompensationRetry != nil {
		r.fail(at+"/compensation_retry", CodeInvalid, "is not allowed for a job: its definition sets the retries")
	}
	return s
}

func (r *reader) call(v any, at string) Call {
	m := r.object(v, at, "http", "job", "args")
	if m == nil {
		return Call{}
	}
	if m["job"] != nil {
		return r.job(m, at)
	}
	if m["args"] != nil {
		r.fail(at+"/args", CodeInvalid, "is allowed for jobs only")
	}
	at += "/http"
	if m["http"] == nil {
		r.fail(at, CodeInvalid, "is required")
		return Call{}
	}
	o := r.object(m["http"], at, "method", "url", "headers")
	if o == nil {
		return Call{}
	}
	h := &HTTPCall{Method: r.text(o, at, "method", 10), URL: r.text(o, at, "url", 2048)}
	if h.Method == "" {
		h.Method = "POST"
	}
	if !slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE"}, h.Method) {
		r.fail(at+"/method", CodeInvalid, "must be POST, PUT, PATCH or DELETE: a step changes something")
	}
	if why := MistakeInURL(h.URL); why != "" {
		r.fail(at+"/url", CodeInvalidURL, "%s", why)
	}
	h.Headers = r.headers(o, at)
	return Call{HTTP: h}
}

// MistakeInURL says what is wrong with the URL of a participant or a webhook by
// its looks, "" when it is fine. Whether its address may be reached is the
// egress policy's matter, at dial time.
func MistakeInURL(s string) string {
	u, err := url.Parse(s)
	switch {
	case s == "":
		return "is required"
	case err != nil:
		return "is not a URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "must begin with http:// or https://"
	case u.Hostname() == "":
		return "has no host"
	case u.User != nil:
		return "must not contain a user name or password"
	case u.Fragment != "":
		return "must not have a fragment"
	case u.Port() != "":
		if _, err := strconv.ParseUint(u.Port(), 10, 16); err != nil {
			return "has a port above 65535"
		}
	}
	return ""
}

// ownHeaders are set by Skald on every call (DESIGN.md section 2) or by HTTP itself.
var ownHeaders = []string{
	"Idempotency-Key", "Traceparent", "Content-Length", "Content-Type", "Host",
	"Connection", "Transfer-Encoding", "Upgrade", "Te", "Trailer", "Keep-Alive",
}

func (r *reader) headers(m map[string]any, at string) map[string]string {
	v := m["headers"]
	if v == nil {
		return nil
	}
	at += "/headers"
	o, ok := v.(map[string]any)
	if !ok {
		r.fail(at, CodeInvalid, "must be an object of strings")
		return nil
	}
	out := make(map[string]string, len(o))
	seen := make(map[string]bool, len(o))
	for _, key := range sortedKeys(o) {
		value, isText := o[key].(string)
		here := at + "/" + strictjson.Token(key)
		lower := strings.ToLower(key)
		switch {
		case seen[lower]: // which of the two would be sent is anybody's guess
			r.fail(here, CodeInvalid, "this header appears twice, in different letter case")
		case !isText:
			r.fail(here, CodeInvalid, "must be a string")
		case !httpguts.ValidHeaderFieldName(key) || !httpguts.ValidHeaderFieldValue(value):
			r.fail(here, CodeInvalid, "is not a valid header")
		case slices.ContainsFunc(ownHeaders, func(h string) bool { return strings.EqualFold(h, key) }),
			strings.HasPrefix(lower, "x-saga-"):
			r.fail(here, CodeInvalid, "this header is set by Skald itself")
		}
		seen[lower] = true
		out[key] = value
	}
	return out
}

// name reads m["name"]: letters, marks and digits of any script and . _ : -
// so that it can stand in a URL path, a header and a log line.
func (r *reader) name(m map[string]any, at string) string {
	s := r.text(m, at, "name", maxName)
	switch v := m["name"]; {
	case m == nil:
	case v == nil || v == "":
		r.fail(at+"/name", CodeInvalid, "is required")
	case s != "" && len([]rune(s)) <= maxName && !ValidName(s):
		r.fail(at+"/name", CodeInvalid, "must consist of letters, digits and . _ : - and begin with a letter or digit")
	}
	return s
}

// ValidName tells whether s may name a workflow or a step.
func ValidName(s string) bool {
	for i, c := range s {
		letter := unicode.IsLetter(c) || unicode.IsDigit(c)
		if !letter && (i == 0 || !unicode.IsMark(c) && !strings.ContainsRune("._:-", c)) {
			return false
		}
	}
	return s != "" && len([]rune(s)) <= maxName
}
