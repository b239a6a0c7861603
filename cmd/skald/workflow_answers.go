package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/simulate"
	"github.com/skald-saga/skald/internal/strictjson"
)

// answersOf reads the answers for a simulated workflow.
func answersOf(list []string) (map[string][]simulate.Answer, error) {
	out := map[string][]simulate.Answer{}
	for _, text := range list {
		key, what, ok := strings.Cut(text, "=")
		words, body, withBody := strings.Cut(what, ":")
		if !ok || key == "" {
			return nil, fmt.Errorf("--answer %s: must be STEP=ANSWER", text)
		}
		var content json.RawMessage
		if withBody {
			var err error
			if content, err = strictjson.Canonical(nil, []byte(body), strictjson.Limits{}); err != nil {
				return nil, fmt.Errorf("--answer %s: the body is invalid: %w", text, err)
			}
		}
		var err error
		if words, isReport := strings.CutPrefix(words, "report "); isReport {
			err = addReport(out[key], words, content)
		} else {
			var a simulate.Answer
			a, err = answerOf(words)
			a.Body = content
			out[key] = append(out[key], a)
		}
		if err != nil {
			return nil, fmt.Errorf("--answer %s: %w", text, err)
		}
	}
	return out, nil
}

func answerOf(word string) (a simulate.Answer, err error) {
	status, notANumber := strconv.Atoi(word)
	switch {
	case slices.Contains(simulate.Faults, word):
		a.Fault = word
	case slices.Contains(simulate.RunStates, word):
		a.RunState = word
	case notANumber == nil && status >= 200 && status <= 599:
		a.Status = status
	default:
		return a, fmt.Errorf("%q is not a status from 200 to 599, a report, one of %v or one of %v", word,
			simulate.Faults, simulate.RunStates)
	}
	return a, nil
}

// addReport adds the report after the last of the answers: "RESULT" or "RESULT after DURATION".
func addReport(to []simulate.Answer, words string, content json.RawMessage) error {
	if len(to) == 0 {
		return fmt.Errorf("a report must follow an answer to its step")
	}
	result, rest, later := strings.Cut(words, " after ")
	r := simulate.Report{Result: reported.Result(result), Output: content}
	if r.Result.Failed() {
		r.Output, r.Error = nil, content
	}
	if later {
		after, err := time.ParseDuration(rest)
		if err != nil || after < 0 {
			return fmt.Errorf("%q is not a duration such as 90s", rest)
		}
		r.AfterMS = after.Milliseconds()
	}
	last := &to[len(to)-1]
	last.Reports = append(last.Reports, r)
	return nil
}

// outcomes maps to the spelling of the API.
var outcomes = map[saga.Verdict]string{
	saga.Done: "done", saga.Refused: "refused", saga.NotApplied: "not applied", saga.Unknown: "unknown",
	saga.Later: "later",
}
