package dlqdb

import (
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// byTerms reports whether the index of terms can serve a filter.
func byTerms(t *LetterTable, f *dlq.Filter) bool {
	return f.Sources != nil || f.Classes != nil || f.ErrorType != "" || f.ErrorContains != "" ||
		f.ConsumerGroup != "" || f.Key != nil ||
		len(f.Headers) > 0 || len(f.Payload) > 0 || len(f.Labels) > 0 || f.Assignee != "" || f.CorrelationID != "" ||
		f.TraceID != "" ||
		f.SagaID != uuid.Nil || f.JobRunID != uuid.Nil || f.Fingerprint != "" && !t.groups
}

// terms adds conditions on the terms.
func (w *letterWhere) terms(t *LetterTable, tenant uuid.UUID, f *dlq.Filter) {
	var all []int32
	add := func(k TermKind, value string) { all = append(all, Term(tenant, k, value)) }
	anyOf := func(k TermKind, values []string) {
		switch len(values) {
		case 0:
		case 1:
			add(k, values[0])
		default:
			var alternatives []int32
			for _, v := range values {
				alternatives = append(alternatives, Term(tenant, k, v))
			}
			w.Add("m.terms && ?::integer[]", termArray(alternatives))
		}
	}
	anyOf(termSource, texts(f.Sources))
	anyOf(termErrorClass, texts(f.Classes))
	for _, eq := range []struct {
		kind  TermKind
		value string
	}{
		{termErrorType, f.ErrorType}, {termConsumers, f.ConsumerGroup}, {termAssignee, f.Assignee},
		{TermCorrelation, f.CorrelationID}, {TermTrace, f.TraceID},
	} {
		if eq.value != "" {
			add(eq.kind, eq.value)
		}
	}
	if !t.groups && f.Fingerprint != "" {
		add(termFingerprint, f.Fingerprint)
	}
	if f.SagaID != uuid.Nil {
		add(TermSaga, f.SagaID.String())
	}
	if f.JobRunID != uuid.Nil {
		add(TermJobRun, f.JobRunID.String())
	}
	if f.Key != nil {
		add(termKey, string(f.Key))
	}
	for _, label := range f.Labels {
		add(termLabel, label)
	}
	for name, value := range f.Headers {
		add(termHeader, headerTerm(name, value))
	}
	for path, value := range f.Payload {
		s, _ := asked(value)
		add(termPayload, memberTerm(path, s))
	}
	for _, word := range words(f.ErrorContains) {
		add(termWord, word)
	}
	if all != nil {
		slices.Sort(all) // map order is random, and equal filters should produce equal queries
		w.Add("m.terms @> ?::integer[]", termArray(all))
	}
}

// besideTerms removes from f the conditions that the index of terms also covers (an exact topic and
// a status), and adds them in the form that this index supports. Otherwise the planner would
// combine a second index with it.
func (w *letterWhere) besideTerms(f *dlq.Filter) {
	var known []string
	own := letterWhere{postgres.Where{Args: w.Args}}
	if f.Topic != "" && !strings.HasSuffix(f.Topic, "*") {
		known = append(known, f.Topic)
		own.Add("m.original_topic = ?", f.Topic)
		f.Topic = ""
	}
	if statuses := slices.Compact(texts(f.Statuses)); len(statuses) == 1 {
		known = append(known, statuses[0])
		own.among("status", statuses)
		own.among("resolution", texts(f.Resolutions))
		f.Statuses, f.Resolutions = nil, nil
	}
	w.unseen(own)
	if known != nil {
		w.Add("ARRAY[m.original_topic::text, m.status::text] @> ?::text[]", pq.Array(known))
	}
}

// found adds the condition that the row actually has the values by which it was found, because two
// values may have the same hash. The planner would multiply both selectivities, although one
// condition implies the other, and so expect a hundredth of the actual rows.
func (w *letterWhere) found(t *LetterTable, f *dlq.Filter) {
	own := letterWhere{postgres.Where{Args: w.Args}}
	own.checks(f)
	if !t.groups && f.Fingerprint != "" {
		own.Add("m.fingerprint = ?", f.Fingerprint)
	}
	w.unseen(own)
}

// checks adds the conditions on the values behind the terms.
func (w *letterWhere) checks(f *dlq.Filter) {
	for _, eq := range []struct{ column, value string }{
		{"error_type", f.ErrorType}, {"consumer_group", f.ConsumerGroup}, {"assignee", f.Assignee},
		{"correlation_id", f.CorrelationID}, {"trace_id", f.TraceID},
	} {
		if eq.value != "" {
			w.Add("m."+eq.column+" = ?", eq.value)
		}
	}
	for _, eq := range []struct {
		column string
		value  uuid.UUID
	}{{"saga_id", f.SagaID}, {"job_run_id", f.JobRunID}} {
		if eq.value != uuid.Nil {
			w.Add("m."+eq.column+" = ?", eq.value)
		}
	}
	w.among("source", texts(f.Sources))
	w.among("error_class", texts(f.Classes))
	if f.Key != nil {
		w.Add("m.message_key = ?", f.Key)
	}
	if len(f.Labels) > 0 {
		w.Add("m.labels @> ?", pq.Array(f.Labels))
	}
	for name, value := range f.Headers {
		w.Add("position(?::bytea in m.headers) > 0", appendHeader(nil, dlq.Header{Name: name, Value: []byte(value)}))
	}
	for path, value := range f.Payload {
		_, doc := asked(value)
		w.Add("m.payload #> ? = ?::jsonb", pq.Array(strings.Split(path, ".")), string(doc))
	}
	if f.ErrorContains != "" {
		asks := words(f.ErrorContains)
		if len(asks) == 0 {
			w.Add("false") // no message contains such a word
		}
		for _, word := range asks {
			// The way PostgreSQL lowercases non-ASCII characters depends on the database, so for
			// words with such characters only the term is compared.
			if !strings.ContainsFunc(word, func(r rune) bool { return r > 127 }) {
				w.Add("position(? in lower(m.error_message)) > 0", word)
			}
		}
	}
}
