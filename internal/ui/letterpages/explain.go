package letterpages

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// heldBy describes what prevents a letter from being retried.
var heldBy = map[client.DeadLetterHold]string{
	client.DeadLetterHoldTopicPolicy:   "auto_retry is off in its topic's policy",
	client.DeadLetterHoldDefaultPolicy: "auto_retry is off in the default policy",
	client.DeadLetterHoldConfiguration: "dlq.auto_retry is off in this server's configuration",
	client.DeadLetterHoldHoldAll:       "the default policy holds all topics",
}

// endings describe how letters ended.
var endings = map[client.DeadLetterResolution]string{
	client.DeadLetterResolutionCONFIRMED: "Its consumer has confirmed that it was processed.",
	client.DeadLetterResolutionBOUNCED:   "It was sent, and came back as another letter.",
	client.DeadLetterResolutionMANUAL:    "It was resolved by an operator: it was handled elsewhere.",
	client.DeadLetterResolutionDISCARDED: "It was discarded by an operator. It is not retried.",
	client.DeadLetterResolutionPOISON:    "It keeps coming back, so it is no longer retried. An operator must handle it.",
}

// explained describes what a letter is waiting for and what happens next.
func explained(l *client.DeadLetter, now time.Time) []template.HTML {
	if l.Archived != nil && *l.Archived {
		return []template.HTML{"It is in the archive. Restore it before acting on it; it then becomes pending, but is not retried " +
			"automatically."}
	}
	switch l.Status {
	case client.DeadLetterStatusPENDING:
		return pending(l, now)
	case client.DeadLetterStatusRETRYING:
		return retrying(l, now)
	}
	if l.Resolution == nil {
		return nil
	}
	if *l.Resolution == client.DeadLetterResolutionEXHAUSTED {
		return []template.HTML{web.Sentence("All its retries have failed (%s of %s). It is no longer retried: requeue "+
			"it once the cause is fixed, or resolve it.", l.RetryCount, l.MaxRetries)}
	}
	if *l.Resolution == client.DeadLetterResolutionREDRIVEN {
		return []template.HTML{accepts(l, now), "Nothing more needs to be done. If its consumer could not process it after all, " +
			"report that: the retry then counts as failed."}
	}
	return []template.HTML{plain(endings[*l.Resolution])}
}

// accepts describes how the target of a letter accepted it, based on the latest retry that was
// accepted.
func accepts(l *client.DeadLetter, now time.Time) template.HTML {
	for _, a := range slices.Backward(l.Attempts) {
		if a.Outcome != client.DeadLetterAttemptOutcomeACKNOWLEDGED {
			continue
		}
		at := web.When(now, a.EndedAt)
		switch {
		case a.StatusCode != nil:
			return web.Sentence("The target answered %s at %s.", *a.StatusCode, at)
		case a.Written != nil:
			return web.Sentence("It was written to the topic %s at %s: partition %s, offset %s.", a.Written.Topic, at,
				a.Written.Partition, a.Written.Offset)
		case a.Target.Kind == client.DeadLetterTargetKindJobRun:
			return web.Sentence("A new run of its job succeeded at %s.", at)
		case a.Target.Kind == client.DeadLetterTargetKindSagaStep:
			return web.Sentence("The compensation of its saga succeeded at %s.", at)
		}
		return web.Sentence("The target accepted it at %s.", at)
	}
	return "The target accepted it."
}

func pending(l *client.DeadLetter, now time.Time) (all []template.HTML) {
	if l.Gate != nil {
		all = append(all, plain(l.Gate.Summary+" In the meantime, no retries are used up."))
	}
	switch {
	case l.HeldByRedrive != nil:
		all = append(all, web.Sentence("Held by redrive %s: it is not retried automatically until that redrive has ended.",
			*l.HeldByRedrive))
	case l.HeldBy != nil && l.NextRetryAt != nil:
		all = append(all, web.Sentence("It is held: %s. Otherwise it would be retried %s.",
			heldBy[*l.HeldBy], web.Ago(now, *l.NextRetryAt)))
	case l.NextRetryAt != nil && l.NextRetryAt.After(now):
		all = append(all, web.Sentence("It is retried automatically %s: retry %s of %s.",
			web.Ago(now, *l.NextRetryAt), l.RetryCount+1, l.MaxRetries))
	case l.NextRetryAt != nil:
		all = append(all, web.Sentence("It is due for retry %s of %s.", l.RetryCount+1, l.MaxRetries))
	case l.ErrorClass == client.DeadLetterErrorClassPERMANENT && fromOutside(l.Source):
		all = append(all, "It is not retried automatically, because retrying the same content is unlikely to succeed: it waits "+
			"for an operator or a redrive.")
	case l.RetryCount > 0:
		all = append(all, web.Sentence("%s of %s retries have failed. It is not retried automatically: it waits for "+
			"an operator or a redrive.", l.RetryCount, l.MaxRetries))
	default:
		all = append(all, "It is not retried automatically: it waits for an operator or a redrive.")
	}
	return append(all, ofSaga(l)...)
}

// fromOutside reports whether letters from this source are retried automatically.
func fromOutside(s client.DeadLetterSource) bool {
	return s == client.DeadLetterSourceKAFKA || s == client.DeadLetterSourceREST
}

func retrying(l *client.DeadLetter, now time.Time) (all []template.HTML) {
	switch l.Target.Kind {
	case client.DeadLetterTargetKindSagaStep:
		all = append(all, "Its saga has accepted the retry and is compensating again; the letter is resolved when the compensation succeeds.")
	case client.DeadLetterTargetKindJobRun:
		all = append(all, "A new run of its job performs the retry; the letter's outcome depends on that run.")
	default:
		all = append(all, "It is being sent to its target.")
	}
	if l.LeaseUntil != nil {
		all = append(all, web.Sentence("If the node that retries it is lost, the letter is released %s.", web.Ago(now, *l.LeaseUntil)))
	}
	return all
}

// ofSaga describes what the actions on a saga's letter mean for the saga.
func ofSaga(l *client.DeadLetter) []template.HTML {
	if l.Source != client.DeadLetterSourceSAGA || l.SagaID == nil {
		return nil
	}
	step := "the step"
	if l.StepName != nil {
		step = *l.StepName
	}
	return []template.HTML{
		web.Sentence("Its saga is waiting for it. If you retry it, the saga calls the compensation of %s again with the same Idempotency-Key.",
			step),
		web.Sentence("If %s was compensated manually, resolve it: the saga then treats the step as compensated and continues.", step),
	}
}

// destination describes where a retry sends a letter. A job is given by its name, which is part of
// the topic of its letters.
func destination(l *client.DeadLetter) string {
	name, ofJob := strings.CutPrefix(l.OriginalTopic, "job.")
	if ofJob && l.Target.Kind == client.DeadLetterTargetKindJobRun {
		return "a run of the job " + name
	}
	return targetOf(&l.Target)
}

// targetOf describes where a retry sends a letter.
func targetOf(t *client.DeadLetterTarget) string {
	if t == nil {
		return ""
	}
	switch {
	case t.Kind == client.DeadLetterTargetKindHTTP && t.URL != nil:
		method := "POST"
		if t.Method != nil {
			method = string(*t.Method)
		}
		return method + " " + *t.URL
	case t.Kind == client.DeadLetterTargetKindKafka && t.Topic != nil && t.Partition != nil:
		return fmt.Sprintf("topic %s, partition %d", *t.Topic, *t.Partition)
	case t.Kind == client.DeadLetterTargetKindKafka && t.Topic != nil:
		return "topic " + *t.Topic
	case t.Kind == client.DeadLetterTargetKindKafka:
		return "its original topic"
	case t.Kind == client.DeadLetterTargetKindJobRun && t.Job != nil:
		return "a run of the job " + *t.Job
	case t.Kind == client.DeadLetterTargetKindJobRun:
		return "a run of its job"
	case t.Kind == client.DeadLetterTargetKindSagaStep:
		return "its saga, which compensates again"
	case t.Kind == client.DeadLetterTargetKindWebhook:
		return "its webhook"
	}
	return web.Words(t.Kind)
}

// outcome describes the outcome of a retry.
type outcome struct{ Words, Means, Tone, Shape string }

var outcomes = map[client.DeadLetterAttemptOutcome]outcome{
	client.DeadLetterAttemptOutcomeACKNOWLEDGED: {"accepted", "the target accepted it", "done", "✓"},
	client.DeadLetterAttemptOutcomeFAILED:       {"failed", "it was definitely not accepted", "bad", "▲"},
	client.DeadLetterAttemptOutcomeUNCERTAIN: {
		"uncertain", "the target may have accepted it: there was no response, or a 5xx", "undo", "?"},
	client.DeadLetterAttemptOutcomeABANDONED: {
		"abandoned", "its node was lost after sending it: the target may have received it", "undo", "?"},
	client.DeadLetterAttemptOutcomeWITHDRAWN: {"withdrawn", "it was not sent and does not count as a retry", "muted", "○"},
}

// outcomeOf describes a retry's outcome in words; an unknown outcome is shown unchanged.
func outcomeOf(o client.DeadLetterAttemptOutcome) outcome {
	if known, ok := outcomes[o]; ok {
		return known
	}
	return outcome{Words: string(o), Tone: "muted", Shape: "?"}
}

// titleOf returns the title of a letter, which describes what failed.
func titleOf(l *client.DeadLetter) string {
	if l.ErrorType != nil && *l.ErrorType != "" {
		return l.OriginalTopic + ": " + *l.ErrorType
	}
	return l.OriginalTopic
}

// plain returns a text as a sentence for a page.
func plain(text string) template.HTML {
	return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // it is escaped
}

func text[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}
