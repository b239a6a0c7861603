package participant

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/saga/secrets"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// Report returns the outcome that a report gives to an attempt, for which call was made. content is
// the output of a successful action or the error of a failed one; nil means that there is none. It
// is treated like the body of an answer: the participant's output rule, schema, limits and secrets
// apply. Unlike an answer that does not match, a report that returns *reported.Unfit decides
// nothing, because the participant can send another one.
func (c *Client) Report(
	ctx context.Context, call *saga.Call, result reported.Result, content json.RawMessage,
) (saga.Outcome, error) {
	hide, err := c.hides(ctx, call)
	if err != nil {
		return saga.Outcome{}, err
	}
	a := answer{status: http.StatusOK, header: http.Header{}, body: content}
	found := hide != nil && c.hidden(&a, hide)
	o, err := c.outcomeOf(call, result, a)
	if hideIn(&o, hide) || found {
		c.cfg.Hidden(call)
	}
	return o, err
}

// Progress returns the message of an attempt's heartbeat as one line without secrets.
func (c *Client) Progress(ctx context.Context, call *saga.Call, message string) (string, error) {
	hide, err := c.hides(ctx, call)
	if err != nil {
		return "", err
	}
	hidden := hide.Text(message)
	if hidden != message {
		c.cfg.Hidden(call)
	}
	return hide.Text(cleaned(hidden)), nil // removed characters may have been part of a secret
}

// hides returns a replacer for the secrets of the participant that a call goes to.
func (c *Client) hides(ctx context.Context, call *saga.Call) (*secrets.Hider, error) {
	if c.cfg.Secrets == nil || call.By.HTTP == nil {
		return nil, nil //nolint:nilnil // the participant has no secrets
	}
	return c.cfg.Secrets.Hides(ctx, call)
}

func (c *Client) outcomeOf(call *saga.Call, result reported.Result, a answer) (o saga.Outcome, err error) {
	message := fmt.Sprintf("the participant reported %q", result)
	switch result {
	case reported.Refused:
		o = c.unsuccessful(saga.Refused, retry.Refused, result.Code(), a)
	case reported.NotApplied:
		o = c.unsuccessful(saga.NotApplied, retry.Unavailable, result.Code(), a)
	case reported.Unknown:
		o = c.unsuccessful(saga.Unknown, retry.BadResponse, result.Code(), a)
	default:
		rules := call.Rules
		if rules == nil || call.Action == saga.Compensate {
			rules = &workflow.Rules{}
		}
		v := answerValues{a: &a, body: a.body}
		if o = c.successful(rules, expression.Evaluate(v), a); o.Verdict != saga.Done {
			return saga.Outcome{}, &reported.Unfit{Pointer: "/output", Why: o.Message}
		}
		o.Code = result.Code()
		return o, nil
	}
	if messageIn(a.body) == "" {
		o.Message = message
	}
	return o, nil
}
