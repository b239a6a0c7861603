package participant

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/saga/secrets"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/strictjson"
)

// withSecrets returns a copy of the call in which secrets replace their placeholders, and a
// replacer that hides the participant's secrets in the answer. The original call, which is
// recorded, stays unchanged.
func (c *Client) withSecrets(ctx context.Context, call *saga.Call) (*saga.Call, *secrets.Hider, error) {
	used := call.By.HTTP.Secrets
	if c.cfg.Secrets == nil {
		return nil, nil, fmt.Errorf("no secret is bound to a participant on this node")
	}
	set, err := c.cfg.Secrets.Of(ctx, call, used != nil)
	switch {
	case err != nil:
		return nil, nil, err
	case set == nil:
		return call, nil, nil
	case used == nil:
		return call, set.Hider(), nil
	}
	values := map[string]string{}
	for _, uses := range used {
		for _, use := range uses {
			if values[use.Name] == "" {
				if values[use.Name], err = set.Value(use.Name, call.By.HTTP.URL); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	out, to := *call, *call.By.HTTP
	out.By.HTTP = &to
	to.Headers = maps.Clone(to.Headers)
	for name, uses := range used {
		if name == workflow.BodyPlace {
			out.Body = expression.Filled(make([]byte, 0, len(call.Body)+64), call.Body, uses, inBody(call.ContentType, values))
			continue
		}
		to.Headers[name] = string(expression.Filled(nil, []byte(to.Headers[name]), uses,
			func(b []byte, secret string) []byte { return append(b, values[secret]...) }))
	}
	return &out, set.Hider(), nil
}

// inBody appends a secret as it must appear in the body of the request.
func inBody(contentType string, values map[string]string) func(b []byte, name string) []byte {
	return func(b []byte, name string) []byte {
		if contentType == workflow.ContentForm {
			return expression.PercentEncoded(b, values[name])
		}
		j, err := strictjson.Encode(values[name])
		if err != nil { // it is UTF-8
			return b
		}
		return append(b, j[1:len(j)-1]...)
	}
}

// hidden replaces the secrets in an answer before its rules read it, and reports whether there were
// any. JSON is converted to its canonical form first, in which no character can be hidden by an
// escape.
func (c *Client) hidden(a *answer, hide *secrets.Hider) (found bool) {
	for name, values := range a.header {
		for i, value := range values {
			if hidden := hide.Text(value); hidden != value {
				a.header[name][i], found = hidden, true
			}
		}
	}
	if len(a.body) == 0 {
		return found
	}
	body := a.body
	if !a.whole() {
		body = cut(body)
	}
	if body, err := c.canonical(body); err == nil {
		if hidden, is := hide.JSON(body); is {
			a.body, found = hidden, true
		}
		return found
	}
	hidden := hide.Text(string(a.body))
	found = found || hidden != string(a.body)
	a.body = []byte(hidden)
	return found
}

// hideIn replaces the secrets in the stored parts of an answer, in case it was repaired or decoded
// after hidden. It reports whether there were any.
func hideIn(o *saga.Outcome, hide *secrets.Hider) (found bool) {
	text := func(s *string) {
		if hidden := hide.Text(*s); hidden != *s {
			*s, found = hidden, true
		}
	}
	text(&o.Message)
	text(&o.StackTrace)
	for e := o.Cause; e != nil; e = e.Cause {
		text(&e.Code)
		text(&e.Type)
		text(&e.Message)
		text(&e.StackTrace)
	}
	for _, j := range []*json.RawMessage{&o.Output, &o.Response} {
		if hidden, is := hide.JSON(*j); is {
			*j, found = hidden, true
		}
	}
	return found
}
