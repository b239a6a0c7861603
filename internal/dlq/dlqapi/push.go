package dlqapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

const (
	keyPrefix  = "idem:"  // prefix of dedupe keys derived from an Idempotency-Key
	ownPrefix  = "skald:" // prefix reserved for Skald
	lettersURL = "/api/v1/dlq/messages/"
)

// PushDeadLetter stores a letter.
func (s *Handlers) PushDeadLetter(ctx context.Context, in api.PushDeadLetterRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(httpkit.WithActor(ctx, nil))
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	key := in.Params.IdempotencyKey
	var texts plaintext.Members
	l, err := s.letterOf(ctx, tenant, in.Body, s.policies(tenant), &texts)
	if err != nil {
		return nil, err
	}
	switch {
	case key == nil:
	case l.DedupeKey != "":
		return nil, httpkit.BadHeader("Idempotency-Key", "excluded", "cannot be combined with dedupe_key")
	default:
		l.DedupeKey = dedupeKeyOf(*key)
	}
	pushed, err := s.Letters.Push(ctx, []dlq.Letter{l})
	if err != nil {
		return nil, err
	}
	p := &pushed[0]
	switch {
	case p.Err != nil:
		return nil, p.Err
	case p.Duplicate && key != nil && !sameLetter(&p.Letter, &l):
		return nil, idempotency.Used()
	}
	status := http.StatusCreated
	if p.Duplicate {
		status = http.StatusOK
	}
	a, err := s.letterAnswer(ctx, status, &p.Letter)
	if err != nil {
		return nil, err
	}
	a.Location, a.Replayed = lettersURL+p.Letter.ID.String(), p.Duplicate && key != nil
	body := a.Body.(api.DeadLetter)
	body.Warnings = s.undrivableWarning(&p.Letter)
	body.Adjusted = httpkit.Merged(httpkit.RequestOf(ctx).Adjusted, texts.Changed)
	if p.Duplicate {
		body.Deduplicated = new(true)
	}
	a.Body = body
	return a, nil
}

// dedupeKeyOf returns the dedupe key for an Idempotency-Key. A long key is hashed.
func dedupeKeyOf(key string) string {
	if len(keyPrefix)+len(key) <= dlq.MaxWord {
		return keyPrefix + key
	}
	sum := sha256.Sum256([]byte(key))
	return keyPrefix + "sha256:" + hex.EncodeToString(sum[:])
}

// sameLetter reports whether two letters were pushed by the same request.
func sameLetter(a, b *dlq.Letter) bool {
	return a.OriginalTopic == b.OriginalTopic && a.Failure == b.Failure && a.ConsumerGroup == b.ConsumerGroup &&
		a.Link == b.Link &&
		a.CorrelationID == b.CorrelationID && a.TraceID == b.TraceID && bytes.Equal(a.Content.Payload, b.Content.Payload) &&
		bytes.Equal(a.Content.Key, b.Content.Key) && sameHeaders(a.Content.Headers, b.Content.Headers) &&
		reflect.DeepEqual(a.Target, b.Target)
}

func sameHeaders(a, b []dlq.Header) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || !bytes.Equal(a[i].Value, b[i].Value) {
			return false
		}
	}
	return true
}

// PushDeadLetters stores letters, each independently.
func (s *Handlers) PushDeadLetters(ctx context.Context, in api.PushDeadLettersRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(httpkit.WithActor(ctx, nil))
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	policies := s.policies(tenant)
	req := httpkit.RequestOf(ctx)
	out := api.DeadLetterResults{Results: make([]api.DeadLetterResult, len(in.Body.Messages))}
	var batch []dlq.Letter
	var at []int // batch index of each letter
	for i := range in.Body.Messages {
		m := &in.Body.Messages[i]
		judged := req.Item(i, m.Err)
		if judged.Refused != nil {
			out.Results[i] = refusedItem(judged.Refused)
			continue
		}
		var texts plaintext.Members
		l, err := s.letterOf(ctx, tenant, &m.Value, policies, &texts)
		out.Results[i].Adjusted = httpkit.Merged(judged.Adjusted, texts.Changed)
		switch f := fault.As(err); {
		case f != nil:
			out.Results[i] = refusedItem(f)
		case err != nil:
			return nil, err
		default:
			batch, at = append(batch, l), append(at, i)
		}
	}
	if len(batch) > 0 {
		pushed, err := s.Letters.Push(ctx, batch)
		if err != nil {
			return nil, err
		}
		for i := range pushed {
			r := pushedItem(&pushed[i])
			if pushed[i].Err == nil {
				r.Adjusted, r.Warnings = out.Results[at[i]].Adjusted, s.undrivableWarning(&pushed[i].Letter)
			}
			out.Results[at[i]] = r
		}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

func pushedItem(p *dlq.Pushed) api.DeadLetterResult {
	if f := fault.As(p.Err); f != nil {
		return refusedItem(f)
	}
	r := api.DeadLetterResult{Status: http.StatusCreated, ID: &p.Letter.ID}
	if p.Duplicate {
		r.Status, r.Deduplicated = http.StatusOK, new(true)
	}
	return r
}

func refusedItem(f *fault.Error) api.DeadLetterResult {
	return api.DeadLetterResult{Status: httpkit.StatusOf(f.Kind), Problem: httpkit.ItemProblem(f)}
}

// policies returns a version of PolicyOf that caches the result for each topic.
func (s *Handlers) policies(tenant uuid.UUID) func(context.Context, string) (*dlq.Policy, error) {
	known := map[string]*dlq.Policy{}
	return func(ctx context.Context, topic string) (*dlq.Policy, error) {
		if p := known[topic]; p != nil {
			return p, nil
		}
		p, err := s.PolicyOf(ctx, tenant, topic)
		if err != nil {
			return nil, err
		}
		known[topic] = &p
		return &p, nil
	}
}

// letterOf makes a letter from a push; texts records which of its texts were cut. Fault: Invalid.
func (s *Handlers) letterOf(ctx context.Context, tenant uuid.UUID, b *api.DeadLetterInput,
	policies func(context.Context, string) (*dlq.Policy, error), texts *plaintext.Members) (dlq.Letter, error) {
	l, wrong := readLetter(b, texts)
	l.TenantID = tenant
	for _, prefix := range []string{keyPrefix, ownPrefix} {
		if strings.HasPrefix(l.DedupeKey, prefix) {
			wrong.Add("/dedupe_key", "reserved", "must not begin with %s", prefix)
		}
	}
	wrong = append(wrong, undrivable(&l)...)
	if wrong != nil {
		return l, httpkit.FieldsFault(fault.Invalid, dlq.CodeInvalid, wrong)
	}
	if err := dlq.Check(&l); err != nil {
		return l, err
	}
	if err := s.checkPushedTarget(&l); err != nil {
		return l, err
	}
	p, err := policies(ctx, l.OriginalTopic)
	if err != nil {
		return l, err
	}
	return dlq.New(l, s.NewID(), p, s.moment()), nil
}

// readLetter checks what the contract cannot express.
func readLetter(b *api.DeadLetterInput, texts *plaintext.Members) (l dlq.Letter, wrong fault.Mistakes) {
	bytesOf := func(pointer string, asText, asBase64 *string) []byte {
		switch {
		case asText != nil && asBase64 != nil:
			wrong.Add(pointer+"_base64", "excluded", "cannot be combined with the text form of the field")
		case asText != nil:
			return append([]byte{}, *asText...)
		case asBase64 != nil:
			raw, err := base64.StdEncoding.Strict().DecodeString(*asBase64)
			if err != nil {
				wrong.Add(pointer+"_base64", "invalid", "is not base64")
			}
			return append([]byte{}, raw...)
		}
		return nil
	}
	l = dlq.Letter{
		Source: dlq.FromREST, OriginalTopic: b.OriginalTopic, ConsumerGroup: httpkit.Text(b.ConsumerGroup),
		Origin: dlq.Origin{Partition: b.OriginalPartition, Offset: b.OriginalOffset},
		Failure: dlq.Failure{Message: b.ErrorMessage, Type: httpkit.Text(b.ErrorType),
			Stack: httpkit.Text(b.ErrorStack)},
		CorrelationID: httpkit.Text(b.CorrelationID), TraceID: httpkit.Text(b.TraceID), DedupeKey: httpkit.Text(b.DedupeKey),
		Labels: b.Labels, MaxRetries: -1,
	}
	l.Failure = l.Failure.Storable(texts)
	if b.ErrorClass != nil {
		l.Failure.Class = dlq.ErrorClass(*b.ErrorClass)
	}
	if b.MaxRetries != nil {
		l.MaxRetries = int(*b.MaxRetries)
	}
	if b.OriginalTimestamp != nil {
		l.Origin.Timestamp = new(b.OriginalTimestamp.UTC().Truncate(time.Microsecond))
	}
	if b.SagaID != nil {
		l.Link.SagaID = *b.SagaID
	}
	if b.JobRunID != nil {
		l.Link.JobRunID = *b.JobRunID
	}
	if b.Payload != nil && b.PayloadBase64 != nil {
		wrong.Add("/payload_base64", "excluded", "cannot be combined with payload")
	}
	if l.Content.Payload = b.Payload; b.Payload == nil {
		l.Content.Payload = bytesOf("/payload", nil, b.PayloadBase64)
	}
	l.Content.Key = bytesOf("/key", b.Key, b.KeyBase64)
	for i, h := range b.Headers {
		l.Content.Headers = append(l.Content.Headers,
			dlq.Header{Name: h.Name, Value: bytesOf(fmt.Sprintf("/headers/%d/value", i), h.Value, h.ValueBase64)})
	}
	if t := b.Target; t != nil {
		l.Target = dlq.Target{Kind: dlq.TargetKind(t.Kind), Topic: httpkit.Text(t.Topic), Partition: t.Partition,
			URL: httpkit.Text(t.URL), Job: httpkit.Text(t.Job)}
		if t.Method != nil {
			l.Target.Method = string(*t.Method)
		}
		wrong = append(wrong, targetMistakes(&l.Target)...)
	}
	return l, wrong
}

// targetMistakes returns the mistakes in the target of a push that do not depend on the
// configuration.
func targetMistakes(t *dlq.Target) (wrong fault.Mistakes) {
	if t.Job != "" && t.Kind != dlq.ToJobRun {
		wrong.Add("/target/job", "excluded", "is allowed only with kind job_run")
	}
	switch t.Kind {
	case dlq.ToJobRun:
		if t.Job == "" {
			wrong.Add("/target/job", "required", "is required")
		}
		if t.Topic != "" || t.Partition != nil || t.URL != "" || t.Method != "" {
			wrong.Add("/target/kind", "excluded", "kind job_run accepts only job")
		}
	case dlq.ToKafka:
		if t.URL != "" || t.Method != "" {
			wrong.Add("/target/url", "excluded", "is not allowed with kind kafka")
		}
	case dlq.ToHTTP:
		if t.Topic != "" || t.Partition != nil {
			wrong.Add("/target/topic", "excluded", "is not allowed with kind http")
		}
		if t.URL == "" {
			wrong.Add("/target/url", "required", "is required")
		}
	}
	return wrong
}

// undrivable returns the reason why a pushed letter could not be sent to its target under any
// configuration of the server.
func undrivable(l *dlq.Letter) []fault.Field {
	switch t := l.Target; {
	case t.Kind == dlq.ToHTTP, t.Kind == dlq.ToKafka && t.Topic != "":
		return dlq.TargetMistakes("/target", t)
	case t.Kind == dlq.ToKafka, t.Kind == "":
		if l.OriginalTopic != "" && !dlq.CanBeTopic(l.OriginalTopic) {
			return []fault.Field{{Pointer: "/original_topic", Code: "not_a_topic",
				Message: "is not a valid Kafka topic name: set a target, or use " + dlq.TopicForm}}
		}
	case t.Kind != dlq.ToJobRun:
		return []fault.Field{{Pointer: "/target/kind", Code: "invalid", Message: "must be kafka, http or job_run"}}
	}
	return nil
}

// checkPushedTarget rejects targets that no retry could reach. Fault: Invalid with
// dlq.CodeTarget.
func (s *Handlers) checkPushedTarget(l *dlq.Letter) error {
	switch t := &l.Target; {
	case t.Kind == dlq.ToHTTP:
		if reason := s.CheckEndpoint(t.URL); reason != "" {
			return notAllowed("/target/url", reason)
		}
		_, err := dlq.CarryOverHTTP(l.Content, true)
		return err
	case s.Routes.Forbids(t.Topic):
		return notAllowed("/target/topic", dlq.ReadAsDeadLetters)
	case t.Topic == "" && (t.Kind == dlq.ToKafka || t.Kind == "") && s.Routes.Forbids(l.OriginalTopic):
		return notAllowed("/original_topic", dlq.ReadAsDeadLetters+": name the topic that the failed record came from, or set a target")
	}
	return nil
}

// undrivableWarning returns a warning for a letter that this server cannot drive with its present
// configuration. The letter is kept because the configuration may change.
func (s *Handlers) undrivableWarning(l *dlq.Letter) *api.DeadLetterWarnings {
	if to := l.Destination(nil); l.Status == dlq.Pending && !s.Routes.Reaches(to.Kind) {
		return &api.DeadLetterWarnings{{Code: dlq.CodeNoKafka, Detail: dlq.TargetNotConfigured(to.Kind)}}
	}
	return nil
}

func notAllowed(pointer, reason string) error {
	return fault.New(fault.Invalid, dlq.CodeTarget, "%s: %s", pointer, reason).With(fault.Field{Pointer: pointer,
		Code: "not_allowed", Message: reason})
}
