package dlqapi

import (
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/rest"
)

// letterView is how much of a letter is shown.
type letterView struct {
	content bool     // payload, key, headers, stack
	raw     bool     // the payload's bytes, also when it is JSON or text
	redact  []string // members of payloads that are never shown
	held    dlq.Hold // that of its topic
}

func toAPILetter(l *dlq.Letter, v letterView) api.DeadLetter {
	out := api.DeadLetter{
		ID: l.ID, OriginalTopic: l.OriginalTopic, ErrorMessage: l.Failure.Message, RetryCount: l.RetryCount,
		MaxRetries:      l.MaxRetries,
		Status:          api.DeadLetterStatus(l.Status),
		Resolution:      rest.EnumUnlessEmpty[api.DeadLetterResolution](string(l.Resolution)),
		PayloadEncoding: rest.EnumUnlessEmpty[api.DeadLetterEncoding](string(l.Encoding)),
		CreatedAt:       l.CreatedAt, UpdatedAt: l.UpdatedAt, LastRetryAt: l.LastRetryAt,
		LastError: rest.UnlessEmpty(l.LastError), LastErrorAt: l.LastErrorAt, NextRetryAt: l.NextRetry(),
		TerminalAt: l.TerminalAt,
		LeaseUntil: l.LeaseUntil, Version: l.Version, Source: api.DeadLetterSource(l.Source),
		OriginalPartition: l.Origin.Partition, OriginalOffset: l.Origin.Offset, OriginalTimestamp: l.Origin.Timestamp,
		ReadFrom: toAPIPlace(l.Arrived), ConsumerGroup: rest.UnlessEmpty(l.ConsumerGroup),
		ErrorType:  rest.UnlessEmpty(l.Failure.Type),
		ErrorClass: api.DeadLetterErrorClass(l.Failure.Class), Fingerprint: l.Fingerprint,
		SagaID: rest.UnlessNil(l.Link.SagaID), JobRunID: rest.UnlessNil(l.Link.JobRunID),
		WebhookID: rest.UnlessNil(l.Link.WebhookID), DeliveryID: rest.UnlessNil(l.Link.DeliveryID),
		StepName: rest.UnlessEmpty(l.Link.StepName), StepAction: rest.EnumUnlessEmpty[api.StepAction](l.Link.Action),
		CorrelationID: rest.UnlessEmpty(l.CorrelationID), TraceID: rest.UnlessEmpty(l.TraceID),
		DedupeKey: rest.UnlessEmpty(l.DedupeKey),
		Labels:    append([]string{}, l.Labels...), Assignee: rest.UnlessEmpty(l.Assignee), Note: rest.UnlessEmpty(l.Note),
		Target: toAPITarget(&l.Target), Revision: l.Revision, Ordered: l.Ordered, RedriveID: rest.UnlessNil(l.RedriveID),
		RootID: l.RootID, ParentID: rest.UnlessNil(l.ParentID), Generation: l.Generation,
		ArchivedAt: l.ArchivedAt, ArchiveReason: rest.UnlessEmpty(l.ArchiveReason), AllowedActions: []api.DeadLetterVerb{},
	}
	if l.Link.StepName != "" {
		out.StepIndex = &l.Link.StepIndex
	}
	if v.held != "" && l.Scheduled() {
		out.HeldBy = new(api.DeadLetterHold(v.held))
	}
	actions := l.Actions()
	if l.ArchivedAt != nil {
		out.Archived, actions = new(true), []string{verbRestore}
	}
	for _, verb := range actions {
		out.AllowedActions = append(out.AllowedActions, api.DeadLetterVerb(verb))
	}
	if v.content && l.Omitted {
		out.ContentOmitted = new(true)
	} else if v.content {
		out.ErrorStack = rest.UnlessEmpty(l.Failure.Stack)
		c := &l.Content
		if c.Payload != nil {
			out.PayloadBytes = new(len(c.Payload))
		}
		out.Payload, out.PayloadBase64 = showPayload(c.Payload, l.Encoding, v)
		out.Key, out.KeyBase64 = showBytes(c.Key)
		out.Headers = showHeaders(c.Headers)
	}
	return out
}

// showPayload returns a payload as JSON, and as base64 when it is neither JSON nor text
// or v requires it.
func showPayload(payload []byte, enc dlq.Encoding, v letterView) (asJSON json.RawMessage, asBase64 *string) {
	if payload == nil {
		return nil, nil
	}
	switch {
	case len(v.redact) > 0 && enc != dlq.JSON:
		asJSON = rest.Redacted // members cannot be located in it, so nothing of it is shown
	case enc == dlq.JSON:
		asJSON = masked(payload, v.redact)
	case enc == dlq.Text:
		asJSON, _ = json.Marshal(string(payload)) // a string always encodes
	}
	if v.raw || enc == dlq.Binary {
		if len(v.redact) > 0 {
			return asJSON, new(rest.RedactedText)
		}
		asBase64 = new(base64.StdEncoding.EncodeToString(payload))
	}
	return asJSON, asBase64
}

// showBytes returns bytes as text if they are UTF-8, and as base64.
func showBytes(b []byte) (asText, asBase64 *string) {
	if b == nil {
		return nil, nil
	}
	if utf8.Valid(b) {
		asText = new(string(b))
	}
	return asText, new(base64.StdEncoding.EncodeToString(b))
}

func showHeaders(headers []dlq.Header) []api.DeadLetterHeader {
	var out []api.DeadLetterHeader
	for _, h := range headers {
		shown := api.DeadLetterHeader{Name: h.Name}
		shown.Value, shown.ValueBase64 = showBytes(h.Value)
		out = append(out, shown)
	}
	return out
}

func toAPITarget(t *dlq.Target) api.DeadLetterTarget {
	return api.DeadLetterTarget{
		Kind: api.DeadLetterTargetKind(t.Kind), Topic: rest.UnlessEmpty(t.Topic), Partition: t.Partition,
		URL: rest.UnlessEmpty(t.URL), Job: rest.UnlessEmpty(t.Job),
		Method: rest.EnumUnlessEmpty[api.DeadLetterTargetMethod](t.Method),
	}
}

func toAPIPlace(p *dlq.Position) *api.KafkaPosition {
	if p == nil {
		return nil
	}
	return &api.KafkaPosition{Topic: p.Topic, Partition: p.Partition, Offset: p.Offset, TopicID: rest.UnlessEmpty(p.ID())}
}

func toAPIAttempts(attempts []dlq.Attempt) []api.DeadLetterAttempt {
	out := make([]api.DeadLetterAttempt, len(attempts))
	for i := range attempts {
		a := &attempts[i]
		out[i] = api.DeadLetterAttempt{
			Number: a.Number, Outcome: api.DeadLetterAttemptOutcome(a.Outcome), Error: rest.UnlessEmpty(a.Error),
			Target:   toAPITarget(&a.Target),
			Revision: a.Revision, Written: toAPIPlace(a.Written), RedriveID: rest.UnlessNil(a.RedriveID),
			Actor:     rest.UnlessEmpty(a.Actor),
			StartedAt: a.StartedAt, EndedAt: a.EndedAt,
		}
		if a.StatusCode != 0 {
			out[i].StatusCode = &a.StatusCode
		}
	}
	return out
}

func toAPILineage(letters []dlq.Letter) []api.DeadLetterAncestor {
	out := make([]api.DeadLetterAncestor, len(letters))
	for i := range letters {
		l := &letters[i]
		out[i] = api.DeadLetterAncestor{
			ID: l.ID, ParentID: rest.UnlessNil(l.ParentID), Status: api.DeadLetterStatus(l.Status),
			Resolution: rest.EnumUnlessEmpty[api.DeadLetterResolution](string(l.Resolution)),
			Generation: l.Generation, RedriveID: rest.UnlessNil(l.RedriveID), CreatedAt: l.CreatedAt,
		}
		if l.ArchivedAt != nil {
			out[i].Archived = new(true)
		}
	}
	return out
}

func toAPIRevisions(revisions []dlq.Revision, redact []string) []api.DeadLetterRevision {
	out := make([]api.DeadLetterRevision, len(revisions))
	for i := range revisions {
		r := &revisions[i]
		shown := api.DeadLetterRevision{Number: r.Number, Author: r.Author, Reason: rest.UnlessEmpty(r.Reason),
			CreatedAt: r.CreatedAt, PayloadPatch: r.Patch}
		enc := dlq.EncodingOf(r.Content.Payload)
		shown.PayloadEncoding = rest.EnumUnlessEmpty[api.DeadLetterEncoding](string(enc))
		shown.Payload, shown.PayloadBase64 = showPayload(r.Content.Payload, enc, letterView{redact: redact})
		if len(redact) > 0 && r.Patch != nil {
			shown.PayloadPatch = rest.Redacted // it may contain the redacted member
		}
		shown.Key, shown.KeyBase64 = showBytes(r.Content.Key)
		shown.Headers = showHeaders(r.Content.Headers)
		out[i] = shown
	}
	return out
}

// verbRestore is the action that an archived letter allows.
const verbRestore = "restore"
