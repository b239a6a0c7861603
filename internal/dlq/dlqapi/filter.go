package dlqapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
)

// filterAsked converts the parameters of a list to a filter with the member names of a filter in a
// request body.
func filterAsked(params any) (*api.DeadLetterFilter, error) {
	doc, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	var asked api.DeadLetterFilter
	return &asked, json.Unmarshal(doc, &asked)
}

// letterFilter reads the filter of a list from its parameters, each of which has been checked
// against the contract. Faults: Malformed; Forbidden if the caller may not read the filtered
// content.
func letterFilter(ctx context.Context, params any) (dlq.Filter, error) {
	asked, err := filterAsked(params)
	if err != nil {
		return dlq.Filter{}, err
	}
	f, wrong, err := filterOf(ctx, asked)
	if err == nil && wrong != nil {
		err = httpkit.ParameterFault(httpkit.CodeInvalidParameter, wrong...)
	}
	return f, err
}

// bodyFilter reads the filter in a request body and also returns it as it was sent. Its mistakes
// are reported with JSON pointers. Faults: Invalid; Forbidden.
func bodyFilter(ctx context.Context, asked *api.DeadLetterFilter) (*dlq.Filter, json.RawMessage, error) {
	doc, err := json.Marshal(asked)
	if err != nil {
		return nil, nil, err
	}
	f, wrong, err := filterOf(ctx, asked)
	if err == nil && wrong != nil {
		err = httpkit.SchemaFault(httpkit.InFilter(wrong)...)
	}
	return &f, doc, err
}

// filterOf converts a filter of the contract to a filter of the rules, for lists, exports and bulk
// operations. wrong contains the mistakes, with member names as pointers. Fault: Forbidden if the
// caller may not read the filtered content.
func filterOf(ctx context.Context, in *api.DeadLetterFilter) (f dlq.Filter, wrong []fault.Field, err error) {
	for _, content := range []struct {
		name  string
		asked bool
	}{
		{"key", in.Key != nil}, {"key_base64", in.KeyBase64 != nil}, {"header", len(in.Header) > 0},
		{"payload", len(in.Payload) > 0},
	} {
		if content.asked {
			if err := httpkit.MayFilterByContent(ctx, content.name); err != nil {
				return f, nil, err
			}
		}
	}
	var w filterMistakes
	f = dlq.Filter{
		Topic: httpkit.Text(in.Topic), Statuses: httpkit.Enums[dlq.Status](in.Status),
		Resolutions: httpkit.Enums[dlq.Resolution](in.Resolution), Sources: httpkit.Enums[dlq.Source](in.Source),
		Classes: httpkit.Enums[dlq.ErrorClass](in.ErrorClass), Fingerprint: httpkit.Text(in.Fingerprint),
		ErrorType: httpkit.Text(in.ErrorType), ErrorContains: httpkit.Text(in.ErrorContains),
		ConsumerGroup: httpkit.Text(in.ConsumerGroup), Key: w.key(in), Headers: w.pairs("header", in.Header),
		Payload: w.pairs("payload", in.Payload), Labels: httpkit.Enums[string](in.Label), Assignee: httpkit.Text(in.Assignee),
		CorrelationID: httpkit.Text(in.CorrelationID), TraceID: httpkit.Text(in.TraceID),
		SagaID: w.id("saga_id", in.SagaID), JobRunID: w.id("job_run_id", in.JobRunID),
		RootID: w.id("root_id", in.RootID), RedriveID: w.id("redrive_id", in.RedriveID),
		CreatedFrom: w.time("created_from", in.CreatedFrom), CreatedTo: w.time("created_to", in.CreatedTo),
		LastRetryFrom: w.time("last_retry_from", in.LastRetryFrom), LastRetryTo: w.time("last_retry_to", in.LastRetryTo),
		RetryCountMin: httpkit.AsInt(in.RetryCountMin), RetryCountMax: httpkit.AsInt(in.RetryCountMax),
	}
	for _, bad := range []*fault.Error{
		httpkit.InOrder("created_from", "created_to", f.CreatedFrom, f.CreatedTo),
		httpkit.InOrder("last_retry_from", "last_retry_to", f.LastRetryFrom, f.LastRetryTo),
	} {
		if bad != nil {
			w.all = append(w.all, bad.Fields...)
		}
	}
	if in.GenerationMin != nil {
		f.GenerationMin = int(*in.GenerationMin)
	}
	return f, w.all, nil
}

// filterMistakes collects mistakes in a filter that the contract does not catch.
type filterMistakes struct{ all []fault.Field }

func (w *filterMistakes) add(name, code, message string) {
	w.all = append(w.all, fault.Field{Parameter: name, Code: code, Message: message})
}

// id reads an id. Zero means no filter, so clients cannot filter by zero.
func (w *filterMistakes) id(name string, in *uuid.UUID) uuid.UUID {
	switch {
	case in == nil:
		return uuid.Nil
	case *in == uuid.Nil:
		w.add(name, "invalid", "must not be the nil UUID")
	}
	return *in
}

func (w *filterMistakes) time(name string, in *time.Time) time.Time {
	if in == nil {
		return time.Time{}
	}
	t := in.UTC()
	if t.Year() < 1970 || t.Year() > 9999 {
		w.add(name, "invalid", "must be a time in the years 1970 to 9999")
	}
	return t
}

// key returns the decoded key of the filter, nil if it has none.
func (w *filterMistakes) key(in *api.DeadLetterFilter) []byte {
	switch {
	case in.Key != nil && in.KeyBase64 != nil:
		w.add("key_base64", "excluded", "cannot be combined with key")
	case in.Key != nil:
		return []byte(*in.Key)
	case in.KeyBase64 != nil:
		key, err := base64.StdEncoding.Strict().DecodeString(*in.KeyBase64)
		if err != nil {
			w.add("key_base64", "invalid", "is not base64")
		}
		return key
	}
	return nil
}

// pairs reads a list of name=value pairs.
func (w *filterMistakes) pairs(member string, in []string) map[string]string {
	var out map[string]string
	for _, pair := range in {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			w.add(member, "invalid", "must be name=value")
			continue
		}
		if before, known := out[name]; known && before != value {
			w.add(member, "repeated", "has two values for "+httpkit.Clip(name))
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out
}

// noLetter returns the fault for an id that matches no dead letter.
func noLetter(detail string) error { return fault.New(fault.NotFound, dlq.CodeNotFound, "%s", detail) }
