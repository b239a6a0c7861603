package dlqapi

import (
	"context"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/rest"
)

// letterFilter reads the filters that all lists of letters have, whichever of
// them are there. The contract has checked each by itself. Faults: Malformed;
// Forbidden when the reader may not know what it filters by.
func letterFilter(ctx context.Context, query url.Values) (dlq.Filter, error) {
	f := dlq.Filter{
		Topic: query.Get("topic"), Statuses: wordsOfQuery[dlq.Status](query["status"]),
		Resolutions: wordsOfQuery[dlq.Resolution](query["resolution"]),
		Sources:     wordsOfQuery[dlq.Source](query["source"]), Classes: wordsOfQuery[dlq.ErrorClass](query["error_class"]),
		Fingerprint: query.Get("fingerprint"), ErrorType: query.Get("error_type"), ErrorContains: query.Get("error_contains"),
		ConsumerGroup: query.Get("consumer_group"), Labels: query["label"], Assignee: query.Get("assignee"),
		CorrelationID: query.Get("correlation_id"), TraceID: query.Get("trace_id"),
	}
	for _, content := range []string{"key", "key_base64", "header", "payload"} {
		if query.Has(content) {
			if err := rest.MayFilterByContent(ctx, content); err != nil {
				return f, err
			}
		}
	}
	var wrong []fault.Field
	fail := func(name, code, message string) {
		wrong = append(wrong, fault.Field{Pointer: name, Code: code, Message: message})
	}
	for name, id := range map[string]*uuid.UUID{
		"saga_id": &f.SagaID, "job_run_id": &f.JobRunID, "redrive_id": &f.RedriveID, "root_id": &f.RootID,
	} {
		if !query.Has(name) {
			continue
		}
		var err error
		if *id, err = uuid.Parse(query.Get(name)); err != nil || *id == uuid.Nil { // zero does not filter
			fail(name, "invalid", "must not be the nil UUID")
		}
	}
	for name, at := range map[string]*time.Time{
		"created_from": &f.CreatedFrom, "created_to": &f.CreatedTo, "last_retry_from": &f.LastRetryFrom,
		"last_retry_to": &f.LastRetryTo,
	} {
		if !query.Has(name) {
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, query.Get(name))
		if *at = t.UTC(); err != nil || at.Year() < 1970 || at.Year() > 9999 {
			fail(name, "invalid", "must be a time in the years 1970 to 9999")
		}
	}
	for name, n := range map[string]**int{"retry_count_min": &f.RetryCountMin, "retry_count_max": &f.RetryCountMax} {
		if query.Has(name) {
			*n = new(0)
			**n, _ = strconv.Atoi(query.Get(name)) // the contract has seen to it
		}
	}
	f.GenerationMin, _ = strconv.Atoi(query.Get("generation_min"))
	f.Key = keyFilter(query, fail)
	f.Headers = pairsOfQuery(query, "header", fail)
	f.Payload = pairsOfQuery(query, "payload", fail)
	if wrong != nil {
		return f, rest.ParameterFault(rest.CodeInvalidParameter, wrong...)
	}
	return f, nil
}

// keyFilter reads a key, nil when none is asked for.
func keyFilter(query url.Values, fail func(name, code, message string)) []byte {
	switch {
	case query.Has("key") && query.Has("key_base64"):
		fail("key_base64", "excluded", "cannot be combined with key")
	case query.Has("key"):
		return append([]byte{}, query.Get("key")...)
	case query.Has("key_base64"):
		key, err := base64.StdEncoding.Strict().DecodeString(query.Get("key_base64"))
		if err != nil {
			fail("key_base64", "invalid", "is not base64")
		}
		return append([]byte{}, key...)
	}
	return nil
}

// pairsOfQuery reads the values of a parameter that are name=value.
func pairsOfQuery(query url.Values, parameter string, fail func(name, code, message string)) map[string]string {
	var out map[string]string
	for _, pair := range query[parameter] {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			fail(parameter, "invalid", "must be name=value")
			continue
		}
		if before, known := out[name]; known && before != value {
			fail(parameter, "repeated", "names "+rest.Clip(name)+" with two values")
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out
}

func wordsOfQuery[T ~string](values []string) []T {
	var out []T
	for _, v := range values {
		out = append(out, T(v))
	}
	return out
}

// noLetter is the fault of an id without a dead letter.
func noLetter(detail string) error { return fault.New(fault.NotFound, dlq.CodeNotFound, "%s", detail) }
