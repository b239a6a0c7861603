package workflow

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/skald-saga/skald/internal/saga/expression"
	"github.com/skald-saga/skald/internal/strictjson/schema"
)

// Answer says how a participant's answers are interpreted. Its rules are expressions; "" means that
// there is no rule.
type Answer struct {
	Done       string `json:"done,omitempty"`
	Refused    string `json:"refused,omitempty"`
	NotApplied string `json:"not_applied,omitempty"`
	// Later: the participant has accepted the work and will report its outcome to the callback URL
	// of the call.
	Later   string `json:"later,omitempty"`
	Unknown string `json:"unknown,omitempty"`
	// LaterMS is how long a report or heartbeat may take. 0 means DefaultLaterMS.
	LaterMS int64 `json:"later_ms,omitempty"`
	// Output is the template of the step's output. nil means the body.
	Output json.RawMessage `json:"output,omitempty"`
}

// answerRules are the members of Answer that are rules, in the order of evaluation.
var answerRules = []string{"done", "refused", "not_applied", "later", "unknown"}

// Limits and default of the time that a saga waits for a report, in milliseconds.
const (
	DefaultLaterMS = 24 * 3600 * 1000
	minLaterMS     = 1000
	maxLaterMS     = 30 * 24 * 3600 * 1000
)

func (a *Answer) rule(word string) string {
	return map[string]string{
		"done": a.Done, "refused": a.Refused, "not_applied": a.NotApplied, "later": a.Later,
		"unknown": a.Unknown,
	}[word]
}

// answer reads m["answer"], or returns nil if it is absent.
func (r *reader) answer(m map[string]any, at string, job bool) *Answer {
	v := m["answer"]
	if v == nil {
		return nil
	}
	at += "/answer"
	if job {
		r.fail(at, CodeInvalid, "is not allowed for a job: the job run determines the outcome")
		return nil
	}
	o := r.object(v, at, "done", "refused", "not_applied", "later", "later_ms", "unknown", "output")
	a := &Answer{
		Done: r.text(o, at, "done", 4096), Refused: r.text(o, at, "refused", 4096),
		NotApplied: r.text(o, at, "not_applied", 4096), Later: r.text(o, at, "later", 4096),
		Unknown: r.text(o, at, "unknown", 4096),
		LaterMS: r.integer(o, at, "later_ms", minLaterMS, maxLaterMS),
	}
	if o["later_ms"] != nil && o["later"] == nil {
		r.fail(at+"/later_ms", CodeInvalid, "requires later: it limits how long a report may take")
	}
	for _, word := range answerRules {
		if _, isBool := o[word].(bool); isBool {
			r.fail(at+"/"+word, CodeExpression, `must be an expression in a string, such as "status == 402"`)
		}
	}
	if out := o["output"]; out != nil {
		a.Output = r.template(out, at+"/output")
	}
	if a.Output == nil && a.Done == "" && a.Refused == "" && a.NotApplied == "" && a.Later == "" && a.Unknown == "" {
		r.fail(at, CodeInvalid, "needs one of %v, or output", answerRules)
		return nil
	}
	return a
}

// undoAnswer reads the answer of a compensation, which has no output.
func (r *reader) undoAnswer(v any, at string, job bool) *Answer {
	m, _ := v.(map[string]any)
	a := r.answer(m, at, job)
	if a != nil && a.Output != nil {
		r.fail(at+"/answer/output", CodeInvalid, "is allowed only for actions: the response to a compensation is not stored")
	}
	return a
}

// Word is the meaning that a rule gives to an answer. "" means that no rule was true, so the status
// decides.
type Word string

// The words.
const (
	AnswerDone       Word = "done"
	AnswerRefused    Word = "refused"
	AnswerNotApplied Word = "not_applied"
	AnswerLater      Word = "later"
	AnswerUnknown    Word = "unknown"
)

// Rules are the compiled rules of an Answer.
type Rules struct {
	rules  []rule
	output *expression.Template
	schema *schema.Schema
}

type rule struct {
	word Word
	when *expression.Predicate
}

// Later reports whether an answer may announce a report.
func (r *Rules) Later() bool {
	return r != nil && slices.ContainsFunc(r.rules, func(of rule) bool { return of.word == AnswerLater })
}

// Judge returns the word of the first rule that is true. The error is an *expression.Failure.
func (r *Rules) Judge(e *expression.Evaluation) (Word, error) {
	for i := range r.rules {
		is, err := r.rules[i].when.True(e)
		switch {
		case err != nil:
			return "", err
		case is:
			return r.rules[i].word, nil
		}
	}
	return "", nil
}

// Output returns the part of an answer that becomes the step's output. kept is false if the whole
// body is the output. The error is an *expression.Failure.
func (r *Rules) Output(e *expression.Evaluation) (output json.RawMessage, kept bool, err error) {
	if r.output == nil {
		return nil, false, nil
	}
	output, err = r.output.Append(nil, e)
	return output, true, err
}

// Unfit says where an output violates the step's schema, without quoting its values. It returns ""
// if the output is valid.
func (r *Rules) Unfit(output json.RawMessage) string {
	if r.schema == nil {
		return ""
	}
	if output == nil {
		output = json.RawMessage("null")
	}
	wrong := r.schema.Mistakes("", output)
	if wrong == nil {
		return ""
	}
	return cmp.Or(wrong[0].Pointer, "the whole output") + " violates the schema's " + wrong[0].Code
}
