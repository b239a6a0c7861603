package measure

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

// LettersReadConfig describes a measurement of the lists of dead letters.
type LettersReadConfig struct {
	// Skald is the path of the server binary. Required.
	Skald string
	// Data describes what is generated first, and in which database; with Letters 0 the
	// database already has generated letters.
	Data LettersConfig
	// Dir is an existing directory for the server's log. Required.
	Dir string
	// Samples is how often each query is sent, at least 20.
	Samples int
	// Depth is how many rows precede a deep cursor, if there are as many.
	Depth int
	// Out receives the table row by row.
	Out io.Writer
}

// ReadLetters measures every list of dead letters of a server, each filter alone, with a status
// and with a topic, and the overviews. It prints them to cfg.Out. An error means that a target
// was missed, or that a response was an error.
func ReadLetters(ctx context.Context, cfg LettersReadConfig) error {
	generate := func() error {
		if cfg.Data.Letters <= 0 {
			return nil
		}
		data := cfg.Data
		data.Out = cfg.Out
		return GenerateLetters(ctx, data)
	}
	common := ReadConfig{
		Skald: cfg.Skald, Dir: cfg.Dir, Samples: cfg.Samples, Depth: cfg.Depth, Out: cfg.Out,
		Data: GenerateConfig{DatabaseURL: cfg.Data.DatabaseURL, Tenant: cfg.Data.Tenant},
	}
	return ask(ctx, common, generate, (*reader).measureLetters)
}

func (r *reader) measureLetters(ctx context.Context) error {
	known, err := r.knowLetters(ctx)
	if err != nil {
		return err
	}
	var letters int64
	if err := r.db.QueryRowContext(ctx, `SELECT count(*) FROM dlq.dlq_messages`).Scan(&letters); err != nil {
		return fmt.Errorf("count the data: %w", err)
	}
	fmt.Fprintf(
		r.Out,
		"%d dead letters. One client; times in ms; deep: after %d rows, or the last page. Target p95 %g, statistics %g.\n\n",
		letters,
		r.Depth,
		readLimit,
		statisticsLimit,
	)
	fmt.Fprintf(r.Out, "%-62s %8s %8s %8s %8s %8s\n", "", "p50", "p95", "deep p50", "deep p95", "rows in")
	for _, q := range letterLists(known) {
		if err := r.list(ctx, q); err != nil {
			return err
		}
	}
	for _, q := range letterLookups(known) {
		if err := r.lookup(ctx, q); err != nil {
			return err
		}
	}
	return r.verdict()
}

// knownLetters contains values of generated letters to filter by.
type knownLetters struct {
	samples []letterSample // of the main tenant, from the whole table
	latest  time.Time
}

type letterSample struct{ id, fingerprint, kind, correlation, trace, root, redrive, key string }

func (r *reader) knowLetters(ctx context.Context) (knownLetters, error) {
	tenant := r.Data.Tenant
	if tenant == [16]byte{} {
		tenant = defaultTenant
	}
	var k knownLetters
	rows, err := r.db.QueryContext(ctx, `
		SELECT id, fingerprint, error_type, correlation_id, trace_id, root_id, redrive_id, convert_from(message_key, 'UTF8')
		  FROM dlq.dlq_messages TABLESAMPLE SYSTEM (`+shareOf("dlq.dlq_messages")+`)
		 WHERE tenant_id = $1 AND redrive_id IS NOT NULL AND correlation_id <> '' AND trace_id <> '' ORDER BY md5(id::text) LIMIT 200`, tenant)
	if err != nil {
		return k, fmt.Errorf("look for samples: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var s letterSample
		if err := rows.Scan(&s.id, &s.fingerprint, &s.kind, &s.correlation, &s.trace, &s.root, &s.redrive,
			&s.key); err != nil {
			return k, fmt.Errorf("look for samples: %w", err)
		}
		k.samples = append(k.samples, s)
	}
	if err := rows.Err(); err != nil {
		return k, fmt.Errorf("look for samples: %w", err)
	}
	if len(k.samples) == 0 {
		return k, fmt.Errorf("tenant %s has no letters to query", tenant)
	}
	err = r.db.QueryRowContext(ctx, `SELECT max(created_at) FROM dlq.dlq_messages`).Scan(&k.latest)
	return k, err
}

func (k knownLetters) at(i int) letterSample { return k.samples[i%len(k.samples)] }

// letterFilters returns every filter of GET /dlq/messages, with values that many, few and no
// letters have.
func letterFilters(k knownLetters) []filter {
	ago := func(days float64) string {
		return k.latest.Add(-time.Duration(days * 24 * float64(time.Hour))).UTC().Format(time.RFC3339)
	}
	between := func(what string, a, b float64) func(int) url.Values {
		return func(int) url.Values { return url.Values{what + "_from": {ago(a)}, what + "_to": {ago(b)}} }
	}
	sampled := func(name string, of func(letterSample) string) func(int) url.Values {
		return func(i int) url.Values { return url.Values{name: {of(k.at(i))}} }
	}
	all := []filter{
		{"a frequent topic", one("topic", "orders.created")},
		{"a topic without letters", one("topic", "unused")},
		{"many topics", one("topic", "orders.*")},
		{"few topics", one("topic", "audit.*")},
		{"fingerprint", sampled("fingerprint", func(s letterSample) string { return s.fingerprint })},
		{"error_type", sampled("error_type", func(s letterSample) string { return s.kind })},
		{"error_class", one("error_class", "PERMANENT")},
		{"error_contains in many", one("error_contains", "connection refused")},
		{"error_contains in some", one("error_contains", "stage sab")},
		{"error_contains in few", one("error_contains", "customer 723")},
		{"consumer_group", one("consumer_group", "orders-worker-0")},
		{"key", sampled("key", func(s letterSample) string { return s.key })},
		{"header of many", one("header", "x-country=se")},
		{"header of few", one("header", "x-shop=shop-77")},
		{"payload of many", one("payload", "customer.country=is")},
		{"payload of some", one("payload", "amount=77.5")},
		{"payload of few", one("payload", "customer.id=777")},
		{"created within one hour", between("created", 45, 45-1.0/24)},
		{"created in the last 30 days", one("created_from", ago(30))},
		{"created over 60 days ago", one("created_to", ago(60))},
		{"retried within one hour", between("last_retry", 45, 45-1.0/24)},
		{"retried within one day", between("last_retry", 45, 44)},
		{"retried in the last 30 days", one("last_retry_from", ago(30))},
		{"retried over 60 days ago", one("last_retry_to", ago(60))},
		{"retry_count_min 1", one("retry_count_min", "1")},
		{"retry_count_min 4", one("retry_count_min", "4")},
		{"retry_count_max 0", one("retry_count_max", "0")},
		{"generation_min 1", one("generation_min", "1")},
		{"generation_min 3", one("generation_min", "3")},
		{"correlation_id", sampled("correlation_id", func(s letterSample) string { return s.correlation })},
		{"trace_id", sampled("trace_id", func(s letterSample) string { return s.trace })},
		{"saga_id", sampled("saga_id", func(s letterSample) string { return s.id })},
		{"job_run_id", sampled("job_run_id", func(s letterSample) string { return s.id })},
		{"root_id", sampled("root_id", func(s letterSample) string { return s.root })},
		{"redrive_id", sampled("redrive_id", func(s letterSample) string { return s.redrive })},
		{"label of some", one("label", "vip")},
		{"label of few", one("label", "ticket-100")},
		{"assignee", one("assignee", "ada")},
	}
	for _, of := range []struct{ name, words string }{
		{"status", "PENDING RETRYING RESOLVED DEAD"}, {"source", "KAFKA REST SAGA JOB WEBHOOK"},
		{"resolution", "REDRIVEN CONFIRMED BOUNCED MANUAL DISCARDED EXHAUSTED POISON"},
	} {
		for word := range strings.FieldsSeq(of.words) {
			all = append(all, filter{of.name + " " + word, one(of.name, word)})
		}
	}
	return all
}

// lettersOf reads a page of letters.
func lettersOf(name string, values func(i int) url.Values) question {
	return question{name, readLimit, func(i int) string {
		v := values(i)
		v.Set("page_size", fmt.Sprint(readSize))
		return "/api/v1/dlq/messages?" + v.Encode()
	}}
}

// letterLists are lists without a filter, with one filter, and with a status or a topic in
// addition.
func letterLists(k knownLetters) []question {
	nothing := func(int) url.Values { return url.Values{} }
	out := []question{
		lettersOf("all letters", nothing),
		lettersOf("all letters, with payloads", one("view", "full")),
		lettersOf("all letters, oldest first", one("order", "asc")),
	}
	all := letterFilters(k)
	for _, f := range all {
		out = append(out, lettersOf(f.name, f.values))
	}
	for _, second := range []filter{{"status DEAD", one("status", "DEAD")},
		{"topic orders.created", one("topic", "orders.created")}} {
		for _, f := range all {
			if both, ok := merged(f.values, second.values); ok {
				out = append(out, lettersOf(f.name+", "+second.name, both))
			}
		}
	}
	return out
}

// letterLookups are single letters and the overviews.
func letterLookups(k knownLetters) []question {
	of := func(suffix string) func(int) string {
		return func(i int) string { return "/api/v1/dlq/messages/" + k.at(i).id + suffix }
	}
	same := func(path string) func(int) string { return func(int) string { return path } }
	return []question{
		lettersOf("all letters, page 500", one("page", "500")),
		lettersOf("status DEAD, page 500", func(int) url.Values { return url.Values{"page": {"500"}, "status": {"DEAD"}} }),
		{"a topic's letters", readLimit, same("/api/v1/dlq/orders.created")},
		{"a letter", readLimit, of("")},
		{"the attempts of a letter", readLimit, of("/attempts")},
		{"the lineage of a letter", readLimit, of("/lineage")},
		{"a group", readLimit, func(i int) string { return "/api/v1/dlq/groups/" + k.at(i).fingerprint }},
		{"groups", statisticsLimit, same("/api/v1/dlq/groups")},
		{"a topic", statisticsLimit, same("/api/v1/dlq/topics/orders.created")},
		// These count every letter exactly.
		{"topics (no target)", 0, same("/api/v1/dlq/topics")},
		{"statistics (no target)", 0, same("/api/v1/statistics/dead-letters")},
	}
}
