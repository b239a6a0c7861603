package letterpages

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// haltReasons describe why a redrive was halted.
var haltReasons = map[string]string{
	"failures":      "the number of failed letters has reached its limit",
	"failure_ratio": "the fraction of failed letters has exceeded its limit",
	"expected":      "it found more letters than expected",
	"bounce_ratio":  "too many of the canary's letters came back",
}

// explainedRedrive describes what a redrive is doing and what it is waiting for.
func explainedRedrive(r *client.Redrive, now time.Time) (all []template.HTML) {
	say := func(s template.HTML) { all = append(all, s) }
	switch r.State {
	case client.RedriveStateAWAITINGAPPROVAL:
		requester := r.Actor
		if r.ActorName != nil {
			requester = *r.ActorName
		}
		say(web.Sentence("It starts when someone other than %s approves it.", requester))
	case client.RedriveStatePENDING:
		if r.ScheduledFor != nil && r.ScheduledFor.After(now) {
			say(web.Sentence("It begins %s.", web.Ago(now, *r.ScheduledFor)))
		} else {
			say("It is collecting its letters.")
		}
	case client.RedriveStateRUNNING:
		running(r, now, say)
	case client.RedriveStatePAUSED:
		say(web.Sentence("It is paused. "+lettersLeft(r.Left)+"; none are processed until it is resumed.", web.Count(r.Left)))
	case client.RedriveStateHALTED:
		reason := text(r.HaltReason)
		if words, known := haltReasons[reason]; known {
			reason = words
		}
		numbers := web.Sentence("Of the letters tried, %s of %s have failed; %s came back.",
			web.Count(r.Counted.Failed), web.Count(r.Counted.Tried), web.Count(r.Bounced))
		if tooMany(r) {
			numbers = web.Sentence("There are %s letters, more than the maximum of %s. None were changed.", web.Count(r.Matched),
				web.Count(*r.HaltsAbove))
		}
		say(plain("It was halted automatically: "+reason+". ") + numbers)
		say(plain(resumed(r)))
	case client.RedriveStateCOMPLETED:
		say(web.Sentence("It has ended: %s of %s done, %s failed, %s skipped, %s came back.", web.Count(r.Done),
			web.Count(r.Matched), web.Count(r.Failed), web.Count(r.Skipped), web.Count(r.Bounced)))
	case client.RedriveStateCANCELED:
		kept := "%s letters were not processed and keep their status."
		if r.Left == 1 {
			kept = "%s letter was not processed and keeps its status."
		}
		say(web.Sentence("It was canceled. "+kept, web.Count(r.Left)))
	}
	if r.MaybeSent > 0 {
		say(web.Sentence("Letters that may have been sent without a response: %s.", web.Count(r.MaybeSent)))
	}
	return all
}

func running(r *client.Redrive, now time.Time, say func(template.HTML)) {
	switch {
	case r.StalledSince != nil && r.WaitingFor != nil:
		say(web.Sentence("No letter has been processed since %s: it waits for %s.", web.Ago(now, *r.StalledSince), *r.WaitingFor))
	case r.StalledSince != nil:
		say(web.Sentence("No letter has been processed since %s.", web.Ago(now, *r.StalledSince)))
	case r.Eta != nil:
		with := ""
		if r.Canary != nil && (r.CanaryPassed == nil || !*r.CanaryPassed) {
			with = ", if its canary passes"
		}
		say(web.Sentence(lettersLeft(r.Left)+". At this rate, the redrive will end %s"+with+".", web.Count(r.Left), web.Ago(now, *r.Eta)))
	default:
		say(web.Sentence(lettersLeft(r.Left)+".", web.Count(r.Left)))
	}
}

// lettersLeft formats the number of letters that are left; the number is an argument of the sentence.
func lettersLeft(n int64) string {
	if n == 1 {
		return "%s letter is left"
	}
	return "%s letters are left"
}

// failuresWord formats a number of failures.
func failuresWord(n int64) string {
	if n == 1 {
		return "1 failure"
	}
	return fmt.Sprintf("%d failures", n)
}

// tooMany reports whether a redrive was halted because it found more letters than expected.
func tooMany(r *client.Redrive) bool { return text(r.HaltReason) == "expected" && r.HaltsAbove != nil }

// resumed describes the effect of resuming a halted redrive.
func resumed(r *client.Redrive) string {
	var parts []string
	if tooMany(r) {
		return "If you resume, the redrive processes all " + web.Count(r.Matched) + " letters."
	}
	if r.Canary != nil && (r.CanaryPassed == nil || !*r.CanaryPassed) {
		parts = append(parts, "the canary counts as passed, so the rest follows at the full rate")
	}
	stop := "there is no stop condition"
	switch s := r.StopOn; {
	case s.FailureRatio != nil && s.Failures != nil:
		stop = fmt.Sprintf("it halts again after %s or above a failure ratio of %s", failuresWord(*s.Failures), number(*s.FailureRatio))
	case s.FailureRatio != nil:
		stop = fmt.Sprintf("it halts again above a failure ratio of %s", number(*s.FailureRatio))
	case s.Failures != nil:
		stop = "it halts again after " + failuresWord(*s.Failures)
	}
	parts = append(parts, "the counters start again at zero", stop+" unless you set a new one")
	return "If you resume it, the following applies: " + strings.Join(parts, "; ") + "."
}

// phase is a phase of a redrive with a canary.
type phase struct {
	Name, Words, Tone string
}

// phasesOf draws the canary, its observation and the rest. It draws nothing without a canary.
func phasesOf(r *client.Redrive, now time.Time) []phase {
	c := r.Canary
	if c == nil {
		return nil
	}
	processed := r.Done + r.Failed + r.Skipped
	passed := r.CanaryPassed != nil && *r.CanaryPassed
	sent := min(processed, int64(c.Count))
	canary := phase{"Canary", web.Count(sent) + " of " + web.Count(c.Count) + " sent", "run"}
	watch := phase{"Watch", "nothing to wait for", "muted"}
	var wait time.Duration
	if c.WatchSeconds != nil && *c.WatchSeconds > 0 {
		wait = time.Duration(*c.WatchSeconds) * time.Second
		watch.Words = web.Duration(wait) + " for letters to come back"
	}
	rest := phase{"The rest", web.Count(max(0, r.Matched-int64(c.Count))) + " letters, once the canary has passed", "muted"}
	switch {
	case passed:
		canary.Tone, watch.Tone, rest.Tone = "done", "done", "run"
		watch.Words = web.Count(r.Bounced) + " came back; passed"
		rest.Words = web.Count(r.Left) + " letters left"
		if r.EndedAt != nil {
			rest.Tone = "done"
		}
	case r.WatchedAt != nil:
		canary.Tone, watch.Tone = "done", "run"
		left := max(0, wait-now.Sub(*r.WatchedAt))
		watch.Words = fmt.Sprintf("%s more, %s came back", web.Duration(left), web.Count(r.Bounced))
	}
	if r.State == client.RedriveStateHALTED {
		switch {
		case tooMany(r): // it has not begun
		case text(r.HaltReason) == "bounce_ratio":
			watch.Tone, watch.Words = "bad", web.Count(r.Bounced)+" came back: halted"
		case passed || canary.Tone == "done":
			rest.Tone, rest.Words = "bad", web.Count(r.Left)+" letters left: halted"
		default:
			canary.Tone, canary.Words = "bad", canary.Words+": halted"
		}
	}
	return []phase{canary, watch, rest}
}

// number formats a number without trailing zeros.
func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
