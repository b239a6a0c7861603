package webhook

import (
	"strconv"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

// A delivery that gives up leaves a dead letter, which remains its letter permanently. When the
// delivery is sent again, the letter is being retried, and the result either resolves the letter or
// is recorded as its next failure. Tests of an endpoint leave no letters.

// LetterKey is the dedupe key of a delivery's letter. Clients cannot push a letter whose key has
// this prefix.
func (d *Delivery) LetterKey() string { return "skald:webhook:" + d.ID.String() }

// letterTopic is the topic of the letters of a subscription.
func letterTopic(id uuid.UUID) string { return "webhook." + id.String() }

// LetterTopic is the topic of the subscription's letters.
func (s *Subscription) LetterTopic() string { return letterTopic(s.ID) }

// LetterUpdate returns the update of the delivery's letter after an outcome, or nil if there is
// none. The caller that stores it fills in the ID of the letter that has LetterKey.
func (r *Result) LetterUpdate(m Moment) *dlq.SourceUpdate {
	d := &r.Delivery
	switch {
	case d.Status == Delivered && d.RoundStart > 0: // only these deliveries may have given up before
		return &dlq.SourceUpdate{Outcome: dlq.Succeeded}
	case d.Status == Failed && !d.IsTest():
		return &dlq.SourceUpdate{Outcome: dlq.GaveUp, Letter: d.letter(m)}
	}
	return nil
}

// Redelivered returns the update of a delivery's letter when the delivery is sent again, or nil if
// there is none; before is the delivery before that.
func Redelivered(before *Delivery, m Moment) *dlq.SourceUpdate {
	if before.Status != Failed || before.IsTest() {
		return nil
	}
	return &dlq.SourceUpdate{Outcome: dlq.RetryStarted, Token: m.NewID()}
}

// letter returns the dead letter of a delivery that gave up. It is stored if there is none yet.
func (d *Delivery) letter(m Moment) dlq.Letter {
	l := dlq.Letter{
		TenantID: d.TenantID, Source: dlq.FromWebhook, OriginalTopic: letterTopic(d.WebhookID), DedupeKey: d.LetterKey(),
		Failure: dlq.Failure{Message: dlq.Storable(d.Error, dlq.MaxError), Type: "no_answer", Class: dlq.Transient},
		Content: dlq.Content{Payload: d.Body}, Link: dlq.Link{WebhookID: d.WebhookID, DeliveryID: d.ID},
		MaxRetries: dlq.DefaultPolicy.MaxRetries, Target: dlq.Target{Kind: dlq.ToWebhook},
	}
	if d.ResponseStatus != 0 {
		l.Failure.Type = "http_" + strconv.Itoa(d.ResponseStatus)
		l.Failure.Class = classOf(d.ResponseStatus)
	}
	return dlq.New(l, m.NewID(), &dlq.DefaultPolicy, dlq.Moment{Now: m.Now, Jitter: m.Jitter})
}

// classOf returns the class of the error, depending on whether an endpoint that responds with
// status is likely to succeed later.
func classOf(status int) dlq.ErrorClass {
	switch {
	case status == 408, status == 425, status == 429, status >= 500:
		return dlq.Transient
	case status >= 400:
		return dlq.Permanent
	}
	return dlq.Unknown
}
