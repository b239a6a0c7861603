package workflowpages

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// Words that separate the answers to the calls of one step, that precede a report, and that precede
// the time until the report arrives.
const (
	then   = " then "
	report = "report"
	after  = "after"
)

var (
	faults    = []string{"timeout", "connection_lost", "invalid_response", "dial_failed"}
	runStates = []string{"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELED", "SKIPPED"}
	results   = []string{"done", "refused", "not_applied", "unknown", "heartbeat"}
)

// answersIn parses "timeout then 202 then report done after 90s {...}"; mistake describes what is
// wrong with it.
func answersIn(text string) (list []client.SimulatedAnswer, mistake string) {
	for text != "" {
		var part string
		part, text = cutAnswer(text)
		if words, is := cutWord(part, report); is {
			r, why := reportIn(words)
			switch {
			case why != "":
				return nil, why
			case list == nil:
				return nil, "a report must follow an answer"
			}
			last := &list[len(list)-1]
			last.Reports = append(last.Reports, r)
			continue
		}
		a, why := answerIn(part)
		if why != "" {
			return nil, why
		}
		list = append(list, a)
	}
	return list, ""
}

// cutAnswer cuts off the first answer or report. A body may contain the separator word, so the text
// before a separator must be complete, and the text after it must begin with a known word.
func cutAnswer(text string) (first, rest string) {
	for at := 0; ; {
		next := strings.Index(text[at:], then)
		if next < 0 {
			return strings.TrimSpace(text), ""
		}
		first, rest = strings.TrimSpace(text[:at+next]), strings.TrimSpace(text[at+next+len(then):])
		word, _, _ := strings.Cut(rest, " ")
		if (word == report || isAnswer(word)) && isWhole(first) {
			return first, rest
		}
		at += next + len(then)
	}
}

// cutWord cuts off the first word of a text.
func cutWord(text, word string) (rest string, is bool) {
	first, rest, _ := strings.Cut(text, " ")
	return strings.TrimSpace(rest), first == word
}

func isAnswer(word string) bool {
	_, err := strconv.Atoi(word)
	return err == nil || slices.Contains(faults, word) || slices.Contains(runStates, word)
}

func isWhole(part string) bool {
	if words, is := cutWord(part, report); is {
		_, mistake := reportIn(words)
		return mistake == ""
	}
	_, mistake := answerIn(part)
	return mistake == ""
}

func answerIn(text string) (a client.SimulatedAnswer, mistake string) {
	word, body, _ := strings.Cut(text, " ")
	switch {
	case slices.Contains(faults, word):
		a.Fault = new(client.SimulatedFault(word))
	case slices.Contains(runStates, word):
		a.RunState = new(client.SimulatedRunState(word))
	default:
		status, err := strconv.Atoi(word)
		if err != nil {
			return a, fmt.Sprintf("%q is not a status, a fault, the final state of a run or a report", word)
		}
		a.Status = &status
	}
	a.Body, mistake = bodyIn(body, word)
	return a, mistake
}

// reportIn parses "done after 90s {...}".
func reportIn(text string) (r client.SimulatedReport, mistake string) {
	word, body, _ := strings.Cut(text, " ")
	if !slices.Contains(results, word) {
		return r, fmt.Sprintf("%q is not the result of a report, which must be one of %s", word, strings.Join(results, ", "))
	}
	r.Result = client.ReportResult(word)
	if rest, is := cutWord(strings.TrimSpace(body), after); is {
		var long string
		long, body, _ = strings.Cut(rest, " ")
		d, err := time.ParseDuration(long)
		if err != nil || d < 0 {
			return r, fmt.Sprintf("%q is not a duration such as 90s", long)
		}
		r.AfterMS = new(d.Milliseconds())
	}
	content, mistake := bodyIn(body, word)
	switch r.Result {
	case client.ReportResultRefused, client.ReportResultNotApplied, client.ReportResultUnknown:
		r.Error = content
	default:
		r.Output = content
	}
	return r, mistake
}

func bodyIn(text, word string) (body json.RawMessage, mistake string) {
	switch text = strings.TrimSpace(text); {
	case text == "":
		return nil, ""
	case !json.Valid([]byte(text)):
		return nil, "the body after " + word + " is not JSON"
	}
	return json.RawMessage(text), ""
}
