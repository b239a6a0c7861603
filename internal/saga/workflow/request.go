package workflow

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/net/http/httpguts"

	"github.com/skald-saga/skald/internal/saga/expression"
)

// Request is a request with its expressions evaluated.
type Request struct {
	HTTP        *HTTPCall // its method, URL and headers
	Body        []byte    // nil means the body that Skald sends when the definition has none
	ContentType string    // "" means JSON
}

// ContentForm is the content type of an HTML form.
const ContentForm = "application/x-www-form-urlencoded"

// maxPart is the maximum size of an address or a header value in bytes, which is about what servers
// and proxies accept in one line.
const maxPart = 8192

func tooLong(value []byte) error {
	why := fmt.Sprintf("the value has %d bytes, but at most %d are allowed: send long values in the body", len(value), maxPart)
	return &expression.Failure{Why: why}
}

var errHeaderValue = errors.New("the value contains characters that a header cannot have")

// Request evaluates the request of step i. The error is an *expression.Failure.
func (d *Definition) Request(i int, undo bool, e *expression.Evaluation) (Request, error) {
	p := d.callPlan(i, undo)
	by := d.Steps[i].Action.HTTP
	if undo {
		by = d.Steps[i].Compensation.HTTP
	}
	out := Request{HTTP: by}
	changed := HTTPCall{Method: by.Method, Headers: by.Headers, Participant: by.Participant}
	target, err := p.target.Append(nil, e)
	if err == nil && len(target) > maxPart {
		err = tooLong(target)
	}
	switch {
	case err != nil:
		return out, pointed(err, by.addressMember())
	case by.Participant != "":
		changed.Path = string(target)
	default:
		changed.URL = string(target)
	}
	if len(p.headers) > 0 {
		changed.Headers = maps.Clone(by.Headers)
		for _, h := range p.headers {
			e.Secrets = nil
			value, err := h.text.Append(nil, e, nil)
			changed.place(h.name, e.Secrets)
			switch {
			case err == nil && len(value) > maxPart:
				err = tooLong(value)
			case err == nil && !httpguts.ValidHeaderFieldValue(string(value)):
				err = &expression.Failure{Why: errHeaderValue.Error()}
			}
			if err != nil {
				return out, pointed(err, "headers/"+h.name)
			}
			changed.Headers[h.name] = string(value)
		}
	}
	out.HTTP, e.Secrets = &changed, nil
	switch {
	case p.body != nil:
		out.Body, err = p.body.Append(make([]byte, 0, 512), e)
	case p.form != nil:
		out.ContentType = ContentForm
		out.Body, err = p.form.Append(make([]byte, 0, 256), e)
	}
	changed.place(BodyPlace, e.Secrets)
	if err != nil && p.form != nil {
		return out, pointed(err, "form")
	}
	return out, pointed(err, "body")
}

// place records where secrets belong.
func (h *HTTPCall) place(at string, secrets []expression.Secret) {
	if len(secrets) == 0 {
		return
	}
	if h.Secrets == nil {
		h.Secrets = map[string][]expression.Secret{}
	}
	h.Secrets[at] = secrets
}

// MostBytes returns the maximum size of the body of a request of step i in bytes, if every value
// that its expressions name has at most value bytes. It returns math.MaxInt if an expression
// computes something, so that only its evaluation shows the size. ok is false if the body has no
// expressions, because Skald then builds it.
func (d *Definition) MostBytes(i int, undo bool, value int) (most int, ok bool) {
	p := d.callPlan(i, undo)
	switch {
	case p == nil:
		return 0, false
	case p.body != nil:
		return p.body.Most(value), true
	case p.form != nil:
		return p.form.Most(value), true
	case p.args != nil:
		return p.args.Most(value), true
	}
	return 0, false
}

// UndoReads reports whether the compensation of step i names the output of step k.
func (d *Definition) UndoReads(i, k int) bool {
	p := d.callPlan(i, true)
	return p != nil && slices.Contains(p.reads, d.Steps[k].Name)
}

// Arguments fills in the arguments of the job of step i. ok is false if they have no expressions
// but references, which JobArgs fills in. The error is an *expression.Failure.
func (d *Definition) Arguments(i int, undo bool, e *expression.Evaluation) (args []byte, ok bool, err error) {
	p := d.callPlan(i, undo)
	if p == nil || p.args == nil {
		return nil, false, nil
	}
	e.Nulls = true
	args, err = p.args.Append(nil, e)
	return args, true, pointed(err, "args")
}
