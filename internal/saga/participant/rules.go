package participant

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/strictjson"
)

// answerValues are the values that the rules for answers can read.
type answerValues struct {
	a    *answer
	body json.RawMessage // nil if there is none or it is not JSON
}

// Variable implements expression.Values.
func (v answerValues) Variable(name string) (json.RawMessage, bool) {
	switch name {
	case "status":
		return strconv.AppendInt(nil, int64(v.a.status), 10), true
	case "headers":
		all := make(map[string]string, len(v.a.header))
		for header, values := range v.a.header {
			all[strings.ToLower(header)] = cleaned(strings.Join(values, ", "))
		}
		j, err := strictjson.Encode(all)
		return j, err == nil
	case "body":
		return v.body, v.body != nil
	}
	return nil, false
}

// Step implements expression.Values.
func (answerValues) Step(string) (json.RawMessage, bool) { return nil, false }

// judged returns the outcome of an answer by the rules of the definition. If a rule cannot be
// evaluated for the answer, the outcome is unknown.
func (c *Client) judged(rules *workflow.Rules, a answer) saga.Outcome {
	v := answerValues{a: &a}
	if body, err := c.canonical(a.body); err == nil && a.whole() {
		v.body = body
	}
	e := expression.Evaluate(v)
	word, err := rules.Judge(e)
	if err != nil {
		return unjudged(err)
	}
	code := "http_" + strconv.Itoa(a.status)
	if a.success() { // its status would not explain the failure
		code = "answer_" + string(word)
	}
	switch word {
	case workflow.AnswerRefused:
		return c.unsuccessful(saga.Refused, retry.Refused, code, a)
	case workflow.AnswerNotApplied:
		return c.unsuccessful(saga.NotApplied, retry.Unavailable, code, a)
	case workflow.AnswerLater:
		return saga.Outcome{Verdict: saga.Later}
	case workflow.AnswerUnknown:
		return c.unsuccessful(saga.Unknown, retry.BadResponse, code, a)
	case workflow.AnswerDone:
	default:
		if o := c.answered(a); !a.success() {
			return o
		}
	}
	return c.successful(rules, e, a)
}

// successful returns the outcome of a success, with the output that the rules select.
func (c *Client) successful(rules *workflow.Rules, e *expression.Evaluation, a answer) saga.Outcome {
	if a.tooLarge {
		return failure(saga.Unknown, retry.BadResponse, CodeResponseTooLarge,
			fmt.Sprintf("the response (status %d) is larger than %d bytes", a.status, c.cfg.MaxResponseBytes))
	}
	output, kept, err := rules.Output(e)
	switch {
	case err != nil:
		return unjudged(err)
	case !kept:
		o := c.done(a)
		if why := rules.Unfit(o.Output); o.Verdict == saga.Done && why != "" {
			return unfit(why)
		}
		return o
	case int64(len(output)) > c.cfg.MaxResponseBytes:
		return failure(saga.Unknown, retry.BadResponse, CodeResponseTooLarge,
			fmt.Sprintf("the step's output is larger than %d bytes", c.cfg.MaxResponseBytes))
	}
	if why := rules.Unfit(output); why != "" {
		return unfit(why)
	}
	return saga.Outcome{Verdict: saga.Done, Output: output}
}

// unfit is the outcome of an answer that violates the step's schema. The participant has acted, so
// the step is in doubt.
func unfit(why string) saga.Outcome {
	return failure(saga.Unknown, retry.BadResponse, CodeInvalidResponse, "the output does not match output_schema: "+why)
}

func unjudged(err error) saga.Outcome {
	message := "the rules for the response cannot be evaluated"
	if f := (*expression.Failure)(nil); errors.As(err, &f) {
		message = "the rules cannot be applied to the response: " + f.Error()
	}
	return failure(saga.Unknown, retry.BadResponse, CodeInvalidResponse, message)
}
