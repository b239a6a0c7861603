package workflow

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Call says how a participant is reached: over HTTP, or as a job run. Exactly one of HTTP and Job
// is set. To add another transport, add a member and its cases in this file, and a file in package
// participant that makes its calls.
type Call struct {
	HTTP *HTTPCall `json:"http,omitempty"`
	// Job names a job definition of the tenant whose run performs the call (decision 0039). ""
	// means that there is none.
	Job string `json:"job,omitempty"`
	// Args is the template of the run's arguments, in the form of an output declaration. nil means
	// the body that an HTTP participant would receive. Canonical JSON.
	Args json.RawMessage `json:"args,omitempty"`
	// Answer says how the answers to a compensation are interpreted. nil means by their status.
	Answer *Answer `json:"answer,omitempty"`
}

// HTTPCall is an HTTP request to a participant. Redirects are never followed. With
// Definition.Expressions, the path and query of URL, Path, the values of Headers, Body and Form may
// contain expressions.
type HTTPCall struct {
	Method string `json:"method"`        // POST by default
	URL    string `json:"url,omitempty"` // absolute, http or https; with Participant it is "" until the call is made
	// Participant is the name of a registered participant, and Path is what follows its base URL,
	// beginning with a slash. A definition has either both of these or URL.
	Participant string            `json:"participant,omitempty"`
	Path        string            `json:"path,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	// Body is the template of the body. If Body and Form are nil, the saga, its payload and the
	// outputs of its steps are sent. Canonical JSON.
	Body json.RawMessage `json:"body,omitempty"`
	Form json.RawMessage `json:"form,omitempty"` // an object; canonical JSON
	// Secrets says where secrets belong in a request whose expressions have been evaluated: in the
	// headers above, by name, and under BodyPlace in the body of the call. Until the request is
	// sent, it contains placeholders in these places. nil means that there are no secrets.
	Secrets map[string][]expression.Secret `json:"-"`
}

// BodyPlace stands for the body in HTTPCall.Secrets. No header has this name.
const BodyPlace = ""

// kind is the call's type, as written in a step, or "" if there is no call.
func (c *Call) kind() string {
	switch {
	case c.Job != "":
		return "job"
	case c.HTTP != nil:
		return "http"
	}
	return ""
}

// Request describes the call for display: where it goes, and the headers from the definition. All
// of it is empty for a job.
func (c *Call) Request() (method, url string, headers map[string]string) {
	if c.HTTP == nil {
		return "", "", nil
	}
	return c.HTTP.Method, c.HTTP.Address(), c.HTTP.Headers
}

// NamedScheme is the scheme in the address of a call that names its participant.
const NamedScheme = "participant://"

// Address is the destination of the request for display: its URL, or the name of its participant
// and the path.
func (h *HTTPCall) Address() string {
	if h.URL == "" && h.Participant != "" {
		return NamedScheme + h.Participant + h.Path
	}
	return h.URL
}

// Names returns the name of the participant that the call names, or "" if it has a URL or is a job.
func (c *Call) Names() string {
	if c.HTTP == nil {
		return ""
	}
	return c.HTTP.Participant
}

// Endpoint returns the URL to which the call is sent, and its place in the definition as a JSON
// pointer without the leading slash. It returns "" for a job, and for a call that names its
// participant and has not been made yet. The URL is cut before its first expression, because what
// follows cannot change the host.
func (c *Call) Endpoint() (member, url string) {
	if c.HTTP == nil || c.HTTP.URL == "" {
		return "", ""
	}
	url, _, _ = strings.Cut(c.HTTP.URL, "${")
	return "http/url", url
}

// action parses the action of the step m.
func (r *reader) action(m map[string]any, at string) Call {
	kind := r.text(m, at, "type", 10)
	switch {
	case kind != "" && kind != "http" && kind != "job":
		r.fail(at+"/type", CodeInvalid, "must be http or job")
	case m["job"] != nil && m["action"] != nil:
		r.fail(at+"/job", CodeInvalid, "cannot be combined with action")
	case m["job"] != nil && kind == "http":
		r.fail(at+"/type", CodeInvalid, "must be job, because the step has a job")
	case m["job"] != nil:
		return r.job(m, at)
	case m["args"] != nil:
		r.fail(at+"/args", CodeInvalid, "is allowed for jobs only")
	case m["action"] == nil && kind == "job":
		r.fail(at+"/job", CodeInvalid, "is required")
	case m["action"] == nil:
		r.fail(at+"/action", CodeInvalid, "is required")
	default:
		c := r.call(m["action"], at+"/action")
		if kind != "" && c.kind() != "" && kind != c.kind() {
			r.fail(at+"/type", CodeInvalid, "does not match the action of the step")
		}
		return c
	}
	return Call{}
}

func (r *reader) call(v any, at string) Call {
	m := r.object(v, at, "http", "job", "args", "answer")
	switch {
	case m == nil:
		return Call{}
	case m["job"] != nil:
		return r.job(m, at)
	case m["args"] != nil:
		r.fail(at+"/args", CodeInvalid, "is allowed for jobs only")
	}
	if m["http"] == nil {
		r.fail(at+"/http", CodeInvalid, "is required")
		return Call{}
	}
	return Call{HTTP: r.http(m["http"], at+"/http")}
}

func (r *reader) http(v any, at string) *HTTPCall {
	o := r.object(v, at, "method", "url", "participant", "path", "headers", "body", "form")
	if o == nil {
		return nil
	}
	h := &HTTPCall{Method: r.text(o, at, "method", 10), URL: r.text(o, at, "url", 2048)}
	if h.Method == "" {
		h.Method = "POST"
	}
	if !slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE"}, h.Method) {
		r.fail(at+"/method", CodeInvalid, "must be POST, PUT, PATCH or DELETE, because a step changes something")
	}
	r.where(h, o, at)
	h.Headers = r.headers(o, at)
	if v := o["body"]; v != nil {
		h.Body = r.template(v, at+"/body")
	}
	switch v := o["form"].(type) {
	case nil:
	case map[string]any:
		if h.Form = r.template(v, at+"/form"); h.Body != nil {
			r.fail(at+"/form", CodeInvalid, "cannot be combined with body: a request has only one of them")
		}
	default:
		r.fail(at+"/form", CodeInvalid, "must be an object")
	}
	return h
}

// where reads the destination of a request: its URL, or a path of a named participant.
func (r *reader) where(h *HTTPCall, o map[string]any, at string) {
	if o["participant"] == nil {
		if why := mistakeInTarget(h.URL); why != "" {
			if h.URL == "" && o["url"] == nil {
				why = "is required, unless the request names a participant"
			}
			r.fail(at+"/url", CodeInvalidURL, "%s", why)
		}
		if o["path"] != nil {
			r.fail(at+"/path", CodeInvalid,
				"requires participant: put the whole address into url, or name the participant")
		}
		return
	}
	h.URL, h.Participant, h.Path = "", r.text(o, at, "participant", maxName), r.text(o, at, "path", 2048)
	if o["path"] == nil {
		h.Path = "/"
	}
	if o["url"] != nil {
		r.fail(at+"/url", CodeInvalid, "cannot be combined with participant: put what follows its base URL into path")
	}
	name, _ := o["participant"].(string)
	if o["participant"] == "" || h.Participant != "" && len([]rune(name)) <= maxName && !ValidName(name) {
		r.fail(at+"/participant", CodeInvalid,
			"must be the name of a participant: letters, digits and . _ : -, beginning with a letter or digit")
	}
	if _, isText := o["path"].(string); isText || o["path"] == nil {
		if why := mistakeInPath(h.Path); why != "" {
			r.fail(at+"/path", CodeInvalidURL, "%s", why)
		}
	}
}

// addressMember is the member that says where the request goes.
func (h *HTTPCall) addressMember() string {
	if h.Participant != "" {
		return "path"
	}
	return "url"
}

// mistakeInPath returns what is wrong with the path below a base URL, or "". No path may lead out
// of the base URL, whatever values its expressions have.
func mistakeInPath(s string) string {
	shape, err := expression.Shape(s)
	if err != nil && expression.Has(s) {
		return err.Error()
	} else if err != nil {
		shape = s
	}
	way, _, _ := strings.Cut(shape, "?")
	switch {
	case strings.Contains(shape, "://") && !strings.HasPrefix(shape, "/"):
		return "must not have a scheme or host, which come from the base URL of the participant: write only what follows it"
	case !strings.HasPrefix(s, "/"):
		return "must begin with /: it follows the base URL of the participant"
	case strings.HasPrefix(shape, "//"):
		return "begins with //, like an address with a host: write a single /"
	case strings.Contains(shape, "#"):
		return "must not have a fragment"
	case strings.Contains(strings.ToLower(way), "%2e"):
		return "has %2E in its path: write the character itself"
	}
	for part := range strings.SplitSeq(way, "/") {
		if part == "." || part == ".." {
			return "has . or .. in its path: write the resulting path"
		}
	}
	return MistakeInURL("http://h" + shape)
}

// mistakeInTarget is MistakeInURL for a URL with expressions. Expressions may appear only in its
// path and query, so that the destination of every request is known at registration.
func mistakeInTarget(s string) string {
	if !expression.Has(s) {
		return MistakeInURL(s)
	}
	rest := s
	if scheme, after, ok := strings.Cut(s, "://"); ok && !strings.Contains(scheme, "${") {
		rest = after
	}
	if host := rest[:strings.Index(rest, "${")]; !strings.ContainsAny(host, "/?") {
		return "has an expression in its scheme, host or port: expressions are allowed only in the " +
			"path and query"
	}
	t, err := expression.Shape(s)
	switch {
	case err != nil:
		return err.Error()
	case strings.Contains(t, "#"):
		return "must not have a fragment"
	}
	way, _, _ := strings.Cut(t, "?")
	for part := range strings.SplitSeq(way, "/") {
		if part == "." || part == ".." {
			return "has . or .. in its path: write the resulting path"
		}
	}
	return MistakeInURL(t)
}

// MistakeInURL returns what is wrong with the syntax of a participant's or a webhook's URL, or "".
// Whether its address may be reached is decided by the egress policy when the connection is
// dialled.
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

// ownHeaders are set by Skald on every call (DESIGN.md section 2), or by HTTP.
var ownHeaders = []string{
	"Idempotency-Key", "Traceparent", "Content-Length", "Content-Type", "Host",
	"Connection", "Transfer-Encoding", "Upgrade", "Te", "Trailer", "Keep-Alive",
}

// OwnHeader reports whether Skald sets this header of calls.
func OwnHeader(name string) bool {
	return slices.ContainsFunc(ownHeaders, func(h string) bool { return strings.EqualFold(h, name) }) ||
		strings.HasPrefix(strings.ToLower(name), "x-saga-")
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
		case seen[lower]: // it is undefined which of the two would be sent
			r.fail(here, CodeInvalid, "this header appears twice, with different capitalization")
		case !isText:
			r.fail(here, CodeInvalid, "must be a string")
		case !httpguts.ValidHeaderFieldName(key) || !expression.Has(value) && !httpguts.ValidHeaderFieldValue(value):
			r.fail(here, CodeInvalid, "is not a valid header")
		case OwnHeader(key):
			r.fail(here, CodeInvalid, "this header is set by Skald itself")
		}
		seen[lower] = true
		out[key] = value
	}
	return out
}
