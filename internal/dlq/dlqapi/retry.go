package dlqapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
)

// RetryDeadLetter drives a letter again and returns the result.
func (s *Handlers) RetryDeadLetter(ctx context.Context, in api.RetryDeadLetterRequestObject) (api.Response, error) {
	b := in.Body
	if b == nil {
		b = &api.DeadLetterRetryInput{}
	}
	if b.Force != nil && *b.Force {
		if err := httpkit.RequireReason(httpkit.Text(b.Reason), "force drives a letter that was given up"); err != nil {
			return nil, err
		}
	}
	work, cancel := s.Promised(ctx)
	defer cancel()
	for range httpkit.Reloads(work) {
		l, err := s.live(work, in.MessageID, in.Params.IfMatch)
		if err != nil {
			return nil, err
		}
		claim, err := s.claimOf(work, &l, b)
		if err != nil {
			return nil, err
		}
		end, err := s.Drive(context.WithoutCancel(ctx), claim) // it has a time limit of its own
		switch {
		case err == nil:
			return s.driven(ctx, &l, &end)
		case !fault.IsCode(err, dlq.CodeStale):
			return nil, s.withCurrentState(work, err, &l)
		}
	}
	return nil, httpkit.KeepsChanging("dead letter")
}

// withCurrentState adds the letter's present state to a conflict, which may have caused it.
func (s *Handlers) withCurrentState(ctx context.Context, err error, l *dlq.Letter) error {
	if now, getErr := s.Letters.Get(ctx, l.TenantID, l.ID); getErr == nil {
		l = &now
	}
	return withCurrentLetter(err, l)
}

// driven returns a letter whose retry has ended with end.
func (s *Handlers) driven(ctx context.Context, l *dlq.Letter, end *dlq.Finish) (httpkit.Answer, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	after, p, err := s.letterAndPolicy(ctx, l.TenantID, l.ID)
	if err != nil {
		return httpkit.Answer{}, err
	}
	status := http.StatusOK
	switch {
	case end.Status == dlq.Retrying:
		status = http.StatusAccepted
	case end.Attempt.Outcome == dlq.Withdrawn && end.Fault != nil:
		return httpkit.Answer{}, withCurrentLetter(end.Fault, &after)
	case end.Attempt.Outcome == dlq.Withdrawn:
		return httpkit.Answer{}, fault.New(fault.Unavailable, fault.CodeUnavailable, "the retry was not attempted: %s", end.Attempt.Error)
	case end.Attempt.Outcome != dlq.Acknowledged:
		return httpkit.Answer{}, &letterFault{
			error:   fault.New(fault.Upstream, dlq.CodeFailed, "the target did not accept the dead letter: %s", end.Attempt.Error).Allowing(after.Actions()),
			message: new(toAPILetter(&after, letterView{})),
		}
	}
	shown := toAPILetter(&after, letterView{content: true, redact: p.Redact, held: p.Held})
	return httpkit.Answer{Status: status, Body: api.DeadLetterRetryResult{Message: shown}, ETag: letterETag(&after)}, nil
}

// claimOf returns what is to be driven and where to. Faults: Invalid.
func (s *Handlers) claimOf(ctx context.Context, l *dlq.Letter, b *api.DeadLetterRetryInput) (dlq.Claim, error) {
	req := httpkit.RequestOf(ctx)
	claim := dlq.Claim{
		TenantID: l.TenantID, LetterID: l.ID, Version: l.Version, Force: b.Force != nil && *b.Force, Actor: req.Principal,
	}
	target, err := s.retryTarget(ctx, l, b.Target)
	if err != nil {
		return claim, err
	}
	claim.Target = target
	if claim.Revision, err = s.revisionOf(ctx, l, b); err != nil {
		return claim, err
	}
	if err := s.carryable(ctx, l, &claim, b); err != nil {
		return claim, err
	}
	detail := map[string]any{"force": claim.Force}
	if target != nil {
		detail["target"] = target
	}
	if claim.Revision != nil {
		detail["revision"] = claim.Revision.Number
	}
	claim.By = s.didLetter(ctx, l.ID, dlq.VerbRetry, b.Reason, detail)
	return claim, nil
}

// retryTarget returns another target for a retry, nil for the letter's own.
func (s *Handlers) retryTarget(ctx context.Context, l *dlq.Letter, t *api.DeadLetterRetryTarget) (*dlq.Target, error) {
	own := l.Destination(nil)
	if t == nil || t.Topic == nil && t.URL == nil && t.Partition == nil && t.Method == nil {
		return nil, s.checkTarget(ctx, l, nil)
	}
	if own.Kind != dlq.ToKafka && own.Kind != dlq.ToHTTP {
		return nil, notAllowed("/target", "only dead letters for Kafka or HTTP can be sent to another target")
	}
	if t.URL != nil || t.Method != nil {
		return s.retryURL(ctx, l, own, t)
	}
	to := dlq.Target{Kind: dlq.ToKafka, Topic: own.Topic, Partition: t.Partition}
	if own.Kind == dlq.ToHTTP {
		to.Topic = l.OriginalTopic
	}
	if t.Topic != nil {
		to.Topic = *t.Topic
	}
	if wrong := dlq.TargetMistakes("/target", to); wrong != nil {
		return nil, httpkit.FieldsFault(fault.Invalid, dlq.CodeInvalid, wrong)
	}
	return &to, s.checkTarget(ctx, l, &to)
}

func (s *Handlers) retryURL(ctx context.Context, l *dlq.Letter, own dlq.Target,
	t *api.DeadLetterRetryTarget) (*dlq.Target, error) {
	to := dlq.Target{Kind: dlq.ToHTTP, URL: own.URL, Method: own.Method}
	if t.URL != nil {
		to.URL = *t.URL
	}
	if t.Method != nil {
		to.Method = string(*t.Method)
	}
	if to.URL == "" {
		return nil, httpkit.SchemaFault(fault.Field{Pointer: "/target/url", Code: "required", Message: "is required"})
	}
	if wrong := dlq.TargetMistakes("/target", to); wrong != nil {
		return nil, httpkit.FieldsFault(fault.Invalid, dlq.CodeInvalid, wrong)
	}
	if reason := s.CheckEndpoint(to.URL); reason != "" {
		return nil, notAllowed("/target/url", reason)
	}
	return &to, s.checkTarget(ctx, l, &to)
}

// checkTarget returns nil when the letter may be driven to a target; nil: its own. Fault:
// Invalid with dlq.CodeTarget.
func (s *Handlers) checkTarget(ctx context.Context, l *dlq.Letter, to *dlq.Target) error {
	var p dlq.Policy
	if to != nil { // its own is always allowed
		var err error
		if p, err = s.PolicyOf(ctx, l.TenantID, l.OriginalTopic); err != nil {
			return err
		}
	}
	if no := s.Routes.Aim(l, to, &p); no != nil {
		return no.Fault()
	}
	return nil
}

// revisionOf makes a revision from an edit, nil without an edit. It starts from what a
// retry would otherwise send.
func (s *Handlers) revisionOf(ctx context.Context, l *dlq.Letter, b *api.DeadLetterRetryInput) (*dlq.Revision, error) {
	key := b.KeyBase64
	if b.Target != nil && b.Target.KeyBase64 != nil {
		if key != nil {
			return nil, httpkit.SchemaFault(fault.Field{Pointer: "/target/key_base64", Code: "excluded", Message: "cannot be combined with key_base64"})
		}
		key = b.Target.KeyBase64
	}
	if b.Payload == nil && b.PayloadBase64 == nil && b.PayloadPatch == nil && key == nil && len(b.HeadersPatch) == 0 {
		return nil, nil //nolint:nilnil // no edit
	}
	if l.Target.Kind != dlq.ToKafka && l.Target.Kind != dlq.ToHTTP && l.Target.Kind != dlq.ToJobRun {
		return nil, httpkit.SchemaFault(fault.Field{Pointer: "", Code: "excluded", Message: "only dead letters for Kafka, HTTP or a job can be edited: this one is sent again by its source"})
	}
	r := dlq.Revision{LetterID: l.ID, Number: 1, Author: httpkit.RequestOf(ctx).Principal, Reason: httpkit.Text(b.Reason),
		CreatedAt: s.Now()}
	revisions, err := s.Letters.Revisions(ctx, l.TenantID, l.ID)
	if err != nil {
		return nil, err
	}
	for i := range revisions {
		r.Number = max(r.Number, revisions[i].Number+1)
		if revisions[i].Number == l.Revision {
			r.Content = revisions[i].Content
		}
	}
	if err := editPayload(&r, l, b); err != nil {
		return nil, err
	}
	if key != nil {
		if r.Content.Key, err = bytesOfBase64("/key_base64", *key, dlq.MaxKey); err != nil {
			return nil, err
		}
	}
	if len(b.HeadersPatch) > 0 {
		if r.Content.Headers == nil {
			r.Content.Headers = l.Content.Headers
		}
		if r.Content.Headers, err = patchedHeaders(r.Content.Headers, b.HeadersPatch); err != nil {
			return nil, err
		}
	}
	return &r, nil
}

func editPayload(r *dlq.Revision, l *dlq.Letter, b *api.DeadLetterRetryInput) (err error) {
	switch { // the contract allows one at most
	case b.Payload != nil:
		r.Content.Payload = b.Payload
	case b.PayloadBase64 != nil:
		r.Content.Payload, err = bytesOfBase64("/payload_base64", *b.PayloadBase64, dlq.MaxPayload)
	case b.PayloadPatch != nil:
		sent := r.Content.Payload
		if sent == nil {
			sent = l.Content.Payload
		}
		if r.Patch, err = json.Marshal(b.PayloadPatch); err != nil {
			return err
		}
		if r.Content.Payload, err = dlq.Patched(sent, r.Patch); err != nil {
			return underMember("/payload_patch", err)
		}
	}
	return err
}

// underMember prefixes the pointers of a fault with a member of the body.
func underMember(member string, err error) error {
	f := fault.As(err)
	if f == nil {
		return err
	}
	fields := slices.Clone(f.Fields)
	for i := range fields {
		fields[i].Pointer = member + fields[i].Pointer
	}
	if fields == nil {
		return err
	}
	return httpkit.FieldsFault(f.Kind, f.Code, fields)
}

func bytesOfBase64(pointer, encoded string, most int) ([]byte, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	switch {
	case err != nil:
		return nil, httpkit.SchemaFault(fault.Field{Pointer: pointer, Code: "invalid", Message: "is not base64"})
	case len(raw) > most:
		return nil, httpkit.SchemaFault(fault.Field{Pointer: pointer, Code: "too_long", Message: "is too long"})
	}
	return append([]byte{}, raw...), nil
}

// patchedHeaders returns headers with changes applied in their order.
func patchedHeaders(headers []dlq.Header, patch []api.DeadLetterHeaderPatch) ([]dlq.Header, error) {
	out := append([]dlq.Header{}, headers...)
	for i := range patch {
		p := &patch[i]
		mistake := func(member, code, message string) error {
			return httpkit.SchemaFault(fault.Field{Pointer: "/headers_patch/" + strconv.Itoa(i) + member, Code: code,
				Message: message})
		}
		out = slices.DeleteFunc(out, func(h dlq.Header) bool { return h.Name == p.Name })
		if p.Op == api.DeadLetterHeaderPatchOpRemove {
			if p.Value != nil || p.ValueBase64 != nil {
				return nil, mistake("/value", "excluded", "is not allowed with op remove")
			}
			continue
		}
		var value []byte
		switch {
		case p.Value != nil && p.ValueBase64 != nil:
			return nil, mistake("/value_base64", "excluded", "cannot be combined with value")
		case p.Value != nil:
			value = append([]byte{}, *p.Value...)
		case p.ValueBase64 != nil:
			raw, err := base64.StdEncoding.Strict().DecodeString(*p.ValueBase64)
			if err != nil {
				return nil, mistake("/value_base64", "invalid", "is not base64")
			}
			value = append([]byte{}, raw...)
		}
		out = append(out, dlq.Header{Name: p.Name, Value: value})
	}
	if len(out) > dlq.MaxHeaders {
		return nil, httpkit.SchemaFault(fault.Field{Pointer: "/headers_patch", Code: "too_many",
			Message: "makes more than " + strconv.Itoa(dlq.MaxHeaders) + " headers"})
	}
	return out, nil
}
