package measure

import (
	"context"
	"fmt"
	"net/url"
	"time"
)

// The targets for pages: a p95 in milliseconds for one visitor who asks for one after another.
const (
	pageLimit     = Millis(80)
	overviewLimit = Millis(30)
	largeLimit    = Millis(150)
)

// overviewKept is how long a node answers with the overview that it has read, after the server has gone on reading
// it for a while because of an earlier request.
const overviewKept = 31 * time.Second

// overviewAnew is the row of the first visitor after a pause.
const overviewAnew = "/ui/, after a pause"

// UI measures the pages for people on a large database, and what open ones cost. It prints them to cfg.Out. An error
// means that a target was missed, or that an answer was an error.
func UI(ctx context.Context, cfg UIConfig) error {
	generate := func() error {
		if cfg.Data.Sagas <= 0 {
			return nil
		}
		return generateUI(ctx, cfg)
	}
	common := ReadConfig{
		Skald: cfg.Skald, Dir: cfg.Dir, Samples: cfg.Samples, Depth: 1, Out: cfg.Out, Data: cfg.Data,
		ServerEnv: []string{fmt.Sprintf("SKALD_LIMITS_MAX_STEPS=%d", largeSteps)},
	}
	return ask(ctx, common, generate, func(r *reader, ctx context.Context) error { return r.measureUI(ctx, cfg) })
}

// generateUI fills the database with what the pages list.
func generateUI(ctx context.Context, cfg UIConfig) error {
	old, recent := cfg.Data, cfg.Data
	old.Out, recent.Out = cfg.Out, cfg.Out
	recent.Sagas, recent.Over = max(1, cfg.Data.Sagas/20), 96*time.Hour
	old.Sagas, old.WithoutLogs = max(1, cfg.Data.Sagas-recent.Sagas), true
	if err := Generate(ctx, old); err != nil {
		return err
	}
	if err := Generate(ctx, recent); err != nil {
		return err
	}
	if cfg.Letters == 0 {
		return nil
	}
	return GenerateLetters(ctx, LettersConfig{
		DatabaseURL: cfg.Data.DatabaseURL, Letters: cfg.Letters, Tenant: cfg.Data.Tenant, Out: cfg.Out,
	})
}

func (r *reader) measureUI(ctx context.Context, cfg UIConfig) error {
	large, err := r.fillUI(ctx, cfg)
	if err != nil {
		return err
	}
	known, err := r.know(ctx)
	if err != nil {
		return err
	}
	letters, err := r.knowLetters(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "One visitor; times in ms. Target p95: %g; for the overview: %g; for a "+
		"saga with 2,000 attempts: %g.\n\n", pageLimit, overviewLimit, largeLimit)
	fmt.Fprintf(r.Out, "%-62s %8s %8s %8s %8s %8s\n", "", "p50", "p95", "", "", "")
	selected := func(name string) bool { return cfg.Only == nil || cfg.Only.MatchString(name) }
	for _, q := range pagesOf(known, letters, large) {
		if !selected(q.name) {
			continue
		}
		if err := r.lookup(ctx, q); err != nil {
			return err
		}
	}
	if selected(overviewAnew) {
		if err := r.overviewUncached(ctx); err != nil {
			return err
		}
	}
	if err := r.watch(ctx, cfg, known); err != nil {
		return err
	}
	return r.verdict()
}

// firstVisits is how often a visitor comes after a pause. Each pause is half a minute.
const firstVisits = 7

// overviewUncached measures the overview when the node has to read it.
func (r *reader) overviewUncached(ctx context.Context) error {
	q := question{name: overviewAnew, limit: overviewLimit}
	samples := make([]time.Duration, firstVisits)
	for i := range samples {
		pause(ctx, overviewKept)
		begun := r.now()
		if err := r.get(ctx, "/ui/", nil); err != nil {
			return err
		}
		samples[i] = r.now().Sub(begun)
	}
	r.row(q, summarize(samples), Latency{}, 0)
	return nil
}

// pagesOf are the pages, each list with its tabs and the filters that people use most.
func pagesOf(k known, l knownLetters, large string) []question {
	same := func(path string) question {
		return question{path, pageLimit, func(int) string { return path }}
	}
	of := func(name string, path func(i int) string) question { return question{name, pageLimit, path} }
	ago := func(days float64) string {
		return url.QueryEscape(k.latest.Add(-time.Duration(days * 24 * float64(time.Hour))).UTC().Format(time.RFC3339))
	}
	q := []question{
		{"/ui/", overviewLimit, func(int) string { return "/ui/" }},
		of("/ui/sagas/{saga}", func(i int) string { return "/ui/sagas/" + k.at(i).id }),
		{"/ui/sagas/{500 steps, 2,000 attempts}", largeLimit, func(int) string { return "/ui/sagas/" + large }},
		{"… its attempts", largeLimit, func(int) string { return "/ui/sagas/" + large + "?tab=attempts" }},
		{"… one attempt", largeLimit, func(int) string {
			return "/ui/sagas/" + large + "?step=step-250&attempt=execute-3"
		}},
	}
	for _, path := range []string{
		"/ui/sagas", "/ui/sagas?needs_attention=true", "/ui/sagas?lifecycle=active",
		"/ui/sagas?status=FAILED", "/ui/sagas?archived=true",
		"/ui/sagas?workflow_name=order", "/ui/sagas?workflow_name=audit&status=FAILED",
		"/ui/sagas?created_from=" + ago(30), "/ui/sagas?created_to=" + ago(60),
		"/ui/sagas?updated_from=" + ago(30), "/ui/sagas/errors", "/ui/workflows", "/ui/workflows/order",
		"/ui/dlq", "/ui/dlq?state=NEW", "/ui/dlq/letters",
		"/ui/dlq/letters?status=PENDING", "/ui/dlq/letters?status=RESOLVED",
		"/ui/dlq/archive", "/ui/dlq/topics", "/ui/redrives",
		"/ui/jobs", "/ui/jobs/calendar", "/ui/jobs/events", "/ui/runs",
		"/ui/runs?state=FAILED", "/ui/runs?state=PENDING",
		"/ui/run-bulks", "/ui/workers", "/ui/webhooks", "/ui/audit",
		"/ui/audit/events", "/ui/access", "/ui/access/sessions", "/ui/system",
	} {
		q = append(q, same(path))
	}
	return append(q,
		of("/ui/dlq/groups/{group}", func(i int) string { return "/ui/dlq/groups/" + l.at(i).fingerprint }),
		of("/ui/dlq/letters/{letter}", func(i int) string { return "/ui/dlq/letters/" + l.at(i).id }),
		of("/ui/timeline?correlation_id=…", func(i int) string {
			return "/ui/timeline?correlation_id=" + url.QueryEscape(k.at(i).correlation)
		}),
		of("/ui/search?q={id}", func(i int) string { return "/ui/search?q=" + k.at(i).id }),
		of("/ui/search?q={business key}", func(i int) string { return "/ui/search?q=" + url.QueryEscape(k.at(i).key) }),
		of("/ui/search?q={trace}", func(i int) string { return "/ui/search?q=" + k.at(i).trace }),
	)
}
