package dlqapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
)

// RetryDeadLetter retries a letter and returns the result.
func (s *Handlers) RetryDeadLetter(ctx context.Context, in api.RetryDeadLetterRequestObject) (api.Response, error) {
	b := in.Body
	if b == nil {
		b = &api.DeadLetterRetryInput{}
	}
	if b.Force != nil && *b.Force {
		if err := httpkit.RequireReason(httpkit.Text(b.Reason), "force retries a DEAD letter, so the audit trail must say why"); err != nil {
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
		if held := s.atGate(&l, claim.Target); held != nil {
			return nil, s.withCurrentState(work, held, &l)
		}
		if httpkit.DryRun(work) {
			return s.wouldRetry(work, &l, claim)
		}
		end, err := s.Drive(context.WithoutCancel(ctx), claim) // Drive has its own time limit
		switch {
		case err == nil:
			return s.driven(ctx, &l, &end)
		case !fault.IsCode(err, dlq.CodeStale):
			return nil, s.withCurrentState(work, err, &l)
		}
	}
	return nil, httpkit.KeepsChanging("dead letter")
}

// atGate returns the reason why a letter must not be sent to a target now; a nil target means the
// letter's own.
func (s *Handlers) atGate(l *dlq.Letter, to *dlq.Target) error {
	at := l.Destination(to)
	if s.Gate == nil || at.Kind != dlq.ToHTTP {
		return nil
	}
	if g := s.Gate(l.TenantID, at.URL); g != nil {
		return fault.New(fault.Conflict, dlq.CodeTargetHeld, "%s", g.Summary)
	}
	return nil
}

// wouldRetry responds to a dry run with the letter as it would look when the retry begins. The
// outcome depends on the target.
func (s *Handlers) wouldRetry(ctx context.Context, l *dlq.Letter, c dlq.Claim) (api.Response, error) {
	if err := s.MayDrive(ctx, c); err != nil {
		return nil, s.withCurrentState(ctx, err, l)
	}
	p, err := s.PolicyOf(ctx, l.TenantID, l.OriginalTopic)
	if err != nil {
		return nil, err
	}
	changes := dryrun.List{{Member: "status", From: string(l.Status), To: string(dlq.Retrying)}}
	if c.Revision != nil {
		changes.Differs("revision", strconv.Itoa(l.Revision), strconv.Itoa(c.Revision.Number))
	}
	shown := toAPILetter(l, letterView{content: true, redact: p.Redact, held: p.Held})
	return httpkit.Answer{Status: http.StatusOK, ETag: letterETag(l, &p),
		Body: api.DeadLetterRetryResult{Message: shown, Changes: httpkit.Planned(changes)}}, nil
}

// withCurrentState adds the letter's current state to a conflict, because that state may have
// caused it.
func (s *Handlers) withCurrentState(ctx context.Context, err error, l *dlq.Letter) error {
	if now, getErr := s.Letters.Get(ctx, l.TenantID, l.ID); getErr == nil {
		l = &now
	}
	return withCurrentLetter(err, l)
}

// driven responds with a letter whose retry ended with end.
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
	return httpkit.Answer{Status: status, Body: api.DeadLetterRetryResult{Message: shown},
		ETag: letterETag(&after, &p)}, nil
}

// claimOf returns what to send and where to send it. Fault: Invalid.
func (s *Handlers) claimOf(ctx context.Context, l *dlq.Letter, b *api.DeadLetterRetryInput) (dlq.Claim, error) {
	req := httpkit.RequestOf(ctx)
	claim := dlq.Claim{
		TenantID: l.TenantID, LetterID: l.ID, Version: l.Version, Force: b.Force != nil && *b.Force, Actor: req.Principal,
	}
	edit, err := editOf(l, b)
	if err != nil {
		return claim, err
	}
	var p dlq.Policy // policy of targets that carry headers and can be chosen
	if own := l.Destination(nil).Kind; own == dlq.ToKafka || own == dlq.ToHTTP {
		if p, err = s.PolicyOf(ctx, l.TenantID, l.OriginalTopic); err != nil {
			return claim, err
		}
	}
	if claim.Target, err = s.retryTarget(l, &p, b.Target); err != nil {
		return claim, err
	}
	var revisions []dlq.Revision
	if l.Revision > 0 || !edit.Empty() {
		if revisions, err = s.Letters.Revisions(ctx, l.TenantID, l.ID); err != nil {
			return claim, err
		}
	}
	content := l.Content.With(l.AtRevision(revisions))
	if !edit.Empty() {
		r, err := l.Revised(&edit, revisions)
		if err != nil {
			return claim, err
		}
		r.Author, r.AuthorName, r.Reason, r.CreatedAt = req.Principal, req.Who.Name, httpkit.Text(b.Reason), s.Now()
		claim.Revision, content = &r, l.Content.With(r.Content)
	}
	if err := carryable(l, &claim, content, &p, b); err != nil {
		return claim, err
	}
	detail := map[string]any{"force": claim.Force}
	if claim.Target != nil {
		detail["target"] = claim.Target
	}
	if claim.Revision != nil {
		detail["revision"] = claim.Revision.Number
	}
	claim.By = s.didLetter(ctx, l.ID, dlq.VerbRetry, b.Reason, detail)
	return claim, nil
}

// retryTarget returns the alternative target of a retry, or nil for the letter's own.
func (s *Handlers) retryTarget(l *dlq.Letter, p *dlq.Policy, t *api.DeadLetterRetryTarget) (*dlq.Target, error) {
	own := l.Destination(nil)
	if t == nil || t.Topic == nil && t.URL == nil && t.Partition == nil && t.Method == nil {
		return nil, s.checkTarget(l, p, nil)
	}
	if own.Kind != dlq.ToKafka && own.Kind != dlq.ToHTTP {
		return nil, notAllowed("/target", "only dead letters whose target is Kafka or HTTP can be sent to another target")
	}
	if t.URL != nil || t.Method != nil {
		return s.retryURL(l, p, own, t)
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
	return &to, s.checkTarget(l, p, &to)
}

func (s *Handlers) retryURL(l *dlq.Letter, p *dlq.Policy, own dlq.Target,
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
	return &to, s.checkTarget(l, p, &to)
}

// checkTarget returns nil if the letter may be driven to a target; a nil target means the letter's
// own. Fault: Invalid with dlq.CodeTarget.
func (s *Handlers) checkTarget(l *dlq.Letter, p *dlq.Policy, to *dlq.Target) error {
	if to == nil { // the letter's own target is always allowed
		p = &dlq.Policy{}
	}
	if no := s.Routes.Aim(l, to, p); no != nil {
		return no.Fault()
	}
	return nil
}

// editOf parses a retry's changes to the content. Fault: Invalid.
func editOf(l *dlq.Letter, b *api.DeadLetterRetryInput) (e dlq.ContentEdit, err error) {
	key := b.KeyBase64
	if b.Target != nil && b.Target.KeyBase64 != nil {
		if key != nil {
			return e, schemaFault("/target/key_base64", "excluded", "cannot be combined with key_base64")
		}
		key = b.Target.KeyBase64
	}
	switch { // the contract allows at most one
	case b.Payload != nil:
		e.Payload = b.Payload
	case b.PayloadBase64 != nil:
		e.Payload, err = bytesOfBase64("/payload_base64", *b.PayloadBase64, dlq.MaxPayload)
	case b.PayloadPatch != nil:
		e.Patch, err = json.Marshal(b.PayloadPatch)
	}
	if err != nil {
		return e, err
	}
	if key != nil {
		if e.Key, err = bytesOfBase64("/key_base64", *key, dlq.MaxKey); err != nil {
			return e, err
		}
	}
	if e.Headers, err = headerEdits(b.HeadersPatch); err != nil {
		return e, err
	}
	if !e.Empty() && !l.Editable() {
		return e, schemaFault("", "excluded",
			"only dead letters whose target is Kafka, HTTP or a job can be edited: this letter is retried by its source")
	}
	return e, nil
}

func schemaFault(pointer, code, message string) error {
	return httpkit.SchemaFault(fault.Field{Pointer: pointer, Code: code, Message: message})
}

func bytesOfBase64(pointer, encoded string, most int) ([]byte, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	switch {
	case err != nil:
		return nil, schemaFault(pointer, "invalid", "is not base64")
	case len(raw) > most:
		return nil, schemaFault(pointer, "too_long", "is too long")
	}
	return append([]byte{}, raw...), nil
}

// headerEdits parses the changes to headers.
func headerEdits(patch []api.DeadLetterHeaderPatch) ([]dlq.HeaderEdit, error) {
	var out []dlq.HeaderEdit
	for i := range patch {
		p := &patch[i]
		at := "/headers_patch/" + strconv.Itoa(i)
		e := dlq.HeaderEdit{Name: p.Name, Remove: p.Op == api.DeadLetterHeaderPatchOpRemove,
			Add: p.Op == api.DeadLetterHeaderPatchOpAdd}
		switch {
		case e.Remove && (p.Value != nil || p.ValueBase64 != nil):
			return nil, schemaFault(at+"/value", "excluded", "is not allowed with op remove")
		case p.Value != nil && p.ValueBase64 != nil:
			return nil, schemaFault(at+"/value_base64", "excluded", "cannot be combined with value")
		case p.Value != nil:
			e.Value = append([]byte{}, *p.Value...)
		case p.ValueBase64 != nil:
			raw, err := base64.StdEncoding.Strict().DecodeString(*p.ValueBase64)
			if err != nil {
				return nil, schemaFault(at+"/value_base64", "invalid", "is not base64")
			}
			e.Value = append([]byte{}, raw...)
		}
		out = append(out, e)
	}
	return out, nil
}
