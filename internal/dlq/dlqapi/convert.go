package dlqapi

import (
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/httpkit"
)

// gateOf returns the gate at which calls of a URL wait, or nil if they need not wait.
type gateOf func(tenant uuid.UUID, url string) *api.GateWait

// letterView selects the parts of a letter that are returned to a client.
type letterView struct {
	content bool     // payload, key, headers, stack
	raw     bool     // return the payload's bytes even if it is JSON or text
	redact  []string // members to redact in payloads
	held    dlq.Hold // the hold of the letter's topic
	gate    gateOf
}

func toAPILetter(l *dlq.Letter, v letterView) api.DeadLetter {
	out := api.DeadLetter{
		ID: l.ID, OriginalTopic: l.OriginalTopic, ErrorMessage: l.Failure.Message, RetryCount: l.RetryCount,
		ContentUnreadable: httpkit.UnlessFalse(l.Unreadable),
		MaxRetries:        l.MaxRetries,
		Status:            api.DeadLetterStatus(l.Status),
		Resolution:        httpkit.EnumUnlessEmpty[api.DeadLetterResolution](string(l.Resolution)),
		PayloadEncoding:   httpkit.EnumUnlessEmpty[api.DeadLetterEncoding](string(l.Encoding)),
		CreatedAt:         l.CreatedAt, UpdatedAt: l.UpdatedAt, LastRetryAt: l.LastRetryAt,
		LastError: httpkit.UnlessEmpty(l.LastError), LastErrorAt: l.LastErrorAt, NextRetryAt: l.NextRetry(),
		TerminalAt: l.TerminalAt,
		LeaseUntil: l.LeaseUntil, Version: l.Version, Source: api.DeadLetterSource(l.Source),
		OriginalPartition: l.Origin.Partition, OriginalOffset: l.Origin.Offset, OriginalTimestamp: l.Origin.Timestamp,
		ReadFrom: toAPIPlace(l.Arrived), ConsumerGroup: httpkit.UnlessEmpty(l.ConsumerGroup),
		ErrorType:  httpkit.UnlessEmpty(l.Failure.Type),
		ErrorClass: api.DeadLetterErrorClass(l.Failure.Class), Fingerprint: l.Fingerprint,
		SagaID: httpkit.UnlessNil(l.Link.SagaID), JobRunID: httpkit.UnlessNil(l.Link.JobRunID),
		WebhookID: httpkit.UnlessNil(l.Link.WebhookID), DeliveryID: httpkit.UnlessNil(l.Link.DeliveryID),
		StepName: httpkit.UnlessEmpty(l.Link.StepName), StepAction: httpkit.EnumUnlessEmpty[api.StepAction](l.Link.Action),
		CorrelationID: httpkit.UnlessEmpty(l.CorrelationID), TraceID: httpkit.UnlessEmpty(l.TraceID),
		DedupeKey: httpkit.UnlessEmpty(l.DedupeKey),
		Labels:    append([]string{}, l.Labels...), Assignee: httpkit.UnlessEmpty(l.Assignee),
		Note:   httpkit.UnlessEmpty(l.Note),
		Target: toAPITarget(&l.Target), Revision: l.Revision, Ordered: l.Ordered, RedriveID: httpkit.UnlessNil(l.RedriveID),
		RootID: l.RootID, ParentID: httpkit.UnlessNil(l.ParentID), Generation: l.Generation,
		ArchivedAt: l.ArchivedAt, ArchiveReason: httpkit.UnlessEmpty(l.ArchiveReason), AllowedActions: []api.DeadLetterVerb{},
	}
	if l.Link.StepName != "" {
		out.StepIndex = &l.Link.StepIndex
	}
	if by := l.HeldBy(v.held); by != "" {
		out.HeldBy = new(api.DeadLetterHold(by))
		if by == dlq.HeldByRedrive {
			out.HeldByRedrive = &l.CollectedBy
		}
	}
	if v.gate != nil && l.Status == dlq.Pending && l.Target.Kind == dlq.ToHTTP && l.ArchivedAt == nil &&
		(l.NextRetryAt != nil || l.CollectedBy != uuid.Nil) {
		out.Gate = v.gate(l.TenantID, l.Target.URL)
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
		out.ErrorStack = httpkit.UnlessEmpty(l.Failure.Stack)
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

// showPayload returns a payload as JSON if it is JSON or text, and as base64 if it is neither or if
// v requires the raw bytes.
func showPayload(payload []byte, enc dlq.Encoding, v letterView) (asJSON json.RawMessage, asBase64 *string) {
	if payload == nil {
		return nil, nil
	}
	switch {
	case len(v.redact) > 0 && enc != dlq.JSON:
		asJSON = httpkit.Redacted // the members cannot be located, so the whole payload is hidden
	case enc == dlq.JSON:
		asJSON = masked(payload, v.redact)
	case enc == dlq.Text:
		asJSON, _ = json.Marshal(string(payload)) // encoding a string cannot fail
	}
	if v.raw || enc == dlq.Binary {
		if len(v.redact) > 0 {
			return asJSON, new(httpkit.RedactedText)
		}
		asBase64 = new(base64.StdEncoding.EncodeToString(payload))
	}
	return asJSON, asBase64
}

// showBytes returns bytes as text if they are valid UTF-8, and as base64.
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
	if headers == nil {
		return nil
	}
	out := make([]api.DeadLetterHeader, 0, len(headers)) // never null, because an edit may have removed all headers
	for _, h := range headers {
		shown := api.DeadLetterHeader{Name: h.Name}
		shown.Value, shown.ValueBase64 = showBytes(h.Value)
		out = append(out, shown)
	}
	return out
}

func toAPITarget(t *dlq.Target) api.DeadLetterTarget {
	return api.DeadLetterTarget{
		Kind: api.DeadLetterTargetKind(t.Kind), Topic: httpkit.UnlessEmpty(t.Topic), Partition: t.Partition,
		URL: httpkit.UnlessEmpty(t.URL), Job: httpkit.UnlessEmpty(t.Job),
		Method: httpkit.EnumUnlessEmpty[api.DeadLetterTargetMethod](t.Method),
	}
}

func toAPIPlace(p *dlq.Position) *api.KafkaPosition {
	if p == nil {
		return nil
	}
	return &api.KafkaPosition{Topic: p.Topic, Partition: p.Partition, Offset: p.Offset,
		TopicID: httpkit.UnlessEmpty(p.ID())}
}

func toAPIAttempts(attempts []dlq.Attempt) []api.DeadLetterAttempt {
	out := make([]api.DeadLetterAttempt, len(attempts))
	for i := range attempts {
		a := &attempts[i]
		out[i] = api.DeadLetterAttempt{
			Number: a.Number, Outcome: api.DeadLetterAttemptOutcome(a.Outcome), Error: httpkit.UnlessEmpty(a.Error),
			Target:   toAPITarget(&a.Target),
			Revision: a.Revision, Written: toAPIPlace(a.Written), RedriveID: httpkit.UnlessNil(a.RedriveID),
			Actor: httpkit.UnlessEmpty(a.Actor), ActorName: httpkit.UnlessEmpty(a.ActorName),
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
			ID: l.ID, ParentID: httpkit.UnlessNil(l.ParentID), Status: api.DeadLetterStatus(l.Status),
			Resolution: httpkit.EnumUnlessEmpty[api.DeadLetterResolution](string(l.Resolution)),
			Generation: l.Generation, RedriveID: httpkit.UnlessNil(l.RedriveID), CreatedAt: l.CreatedAt,
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
		shown := api.DeadLetterRevision{Number: r.Number, Author: r.Author, AuthorName: httpkit.UnlessEmpty(r.AuthorName),
			Reason: httpkit.UnlessEmpty(r.Reason), CreatedAt: r.CreatedAt, PayloadPatch: r.Patch}
		enc := dlq.EncodingOf(r.Content.Payload)
		shown.PayloadEncoding = httpkit.EnumUnlessEmpty[api.DeadLetterEncoding](string(enc))
		shown.Payload, shown.PayloadBase64 = showPayload(r.Content.Payload, enc, letterView{redact: redact})
		if len(redact) > 0 && r.Patch != nil {
			shown.PayloadPatch = httpkit.Redacted // it may contain a redacted member
		}
		shown.Key, shown.KeyBase64 = showBytes(r.Content.Key)
		shown.Headers = showHeaders(r.Content.Headers)
		out[i] = shown
	}
	return out
}

// verbRestore is the only action allowed on an archived letter.
const verbRestore = "restore"
