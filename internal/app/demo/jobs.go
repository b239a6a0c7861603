package demo

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/skald-saga/skald/api/worker"

	"github.com/skald-saga/skald/internal/loop"
)

// fillJobs defines jobs and creates runs in every state in which a run can stay.
func (f *filler) fillJobs(ctx context.Context) error {
	for _, d := range []object{
		{"name": "nightly-report", "type": "time", "command_name": "report", "labels": object{"team": "finance"},
			"schedule":           object{"type": "daily_at", "value": "02:30", "timezone": "Europe/Berlin"},
			"concurrency_policy": "forbid", "timeout_ms": 600_000},
		{"name": settlement, "type": "time", "command_name": "settle", "concurrency_policy": "forbid",
			"schedule": object{"type": "daily_at", "value": "02:30"}, "labels": object{"team": "finance"}},
		{"name": "heartbeat", "type": "time", "command_name": "report",
			"schedule": object{"type": "interval", "value": "10s"}},
		{"name": "weekly-archive", "type": "time", "command_name": "report",
			"schedule": object{"type": "cron", "value": "0 4 * * 1", "timezone": "America/New_York"}},
		{"name": "import-prices", "type": "manual", "command_name": "import", "dead_letter": true,
			"retry": object{"max_attempts": 2, "initial_interval_ms": 500}},
		{"name": "rebuild-index", "type": "time", "command_name": "sleep", "concurrency_policy": "forbid",
			"schedule": object{"type": "interval", "value": "15s"}, "default_args": object{"seconds": 86_400},
			"args_schema": object{"type": "object", "properties": object{"seconds": object{"type": "integer"}}}},
		{"name": "stocktaking", "type": "manual", "command_name": "sleep", "timeout_ms": 1000},
		{"name": "render", "type": "manual", "command_name": "render", "queue": "gpu"},
		{"name": "on-order", "type": "event", "command_name": "report", "event": object{"event_type": "order.paid"}},
	} {
		if err := f.post(ctx, "/job-definitions", d); err != nil {
			return err
		}
	}
	if err := f.lost(ctx); err != nil {
		return err
	}
	for _, n := range []int{1, 6, 11, 16} {
		if err := f.paid(ctx, n); err != nil {
			return err
		}
	}
	if err := f.nights(ctx); err != nil {
		return err
	}
	if err := f.kim.post(ctx, "/job-definitions/weekly-archive/pause", object{"reason": "until the move is over"}); err != nil {
		return err
	}
	for _, r := range []struct {
		definition string
		in         object
		then       string
	}{
		{"nightly-report", object{"args": object{"lines": 400}}, ""},
		{"import-prices", object{"args": object{"file": "prices.csv"}}, ""},
		{"stocktaking", object{"args": object{"seconds": 60}}, ""},
		{"render", object{}, ""}, // no worker serves its queue
		{"render", object{}, "cancel"},
	} {
		var made struct {
			RunID string `json:"id"`
		}
		if err := f.kim.call(ctx, "POST", "/job-definitions/"+r.definition+"/runs", r.in, &made); err != nil {
			return err
		}
		if r.then != "" {
			if err := f.kim.post(ctx, "/job-runs/"+made.RunID+"/"+r.then, object{"reason": "not needed"}); err != nil {
				return err
			}
		}
	}
	return f.webhooks(ctx)
}

// settlement is a job with a run last night that a person might investigate.
const settlement = "nightly-settlement"

// nights runs the settlement of the past nights. The bank's statement for the night before last
// never arrives, so that run is still going and last night's run was skipped.
func (f *filler) nights(ctx context.Context) error {
	now := time.Now().UTC()
	last := now.Truncate(24 * time.Hour).Add(150 * time.Minute)
	if last.After(now) {
		last = last.Add(-24 * time.Hour)
	}
	for _, b := range []struct {
		in    object
		after time.Time // the time of the last of these slots
		state string    // the state in which the run stays
	}{
		{object{"from": last.AddDate(0, 0, -7), "to": last, "max_active": 1}, last.AddDate(0, 0, -1), "RUNNING"},
		{object{"from": last, "to": last.Add(time.Minute), "overlap": "forbid"}, last, "SKIPPED"},
	} {
		b.in["reason"] = "after the move to this server"
		if err := f.post(ctx, "/job-definitions/"+settlement+"/backfills", b.in); err != nil {
			return err
		}
		list := "/job-runs?definition=" + settlement + "&state=" + b.state + "&scheduled_from=" + b.after.Format(time.RFC3339)
		if err := until(ctx, "a night is "+b.state, func() (bool, error) {
			var page struct {
				Runs []struct{} `json:"job_runs"`
			}
			err := f.call(ctx, "GET", list, nil, &page)
			return len(page.Runs) > 0, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// settle settles one night. The bank's statement for the night before last never arrives.
func settle(ctx context.Context, r *worker.Run) (any, error) {
	night := r.ScheduledFor.Format("2006-01-02")
	fmt.Fprintf(r.Stdout(), "asking the bank for its statement of %s\n", night)
	age := time.Since(r.ScheduledFor)
	for age > 24*time.Hour && age < 48*time.Hour {
		fmt.Fprintf(r.Stdout(), "the bank has no statement of %s yet: waiting\n", night)
		if !loop.Sleep(ctx, 20*time.Second) {
			return nil, context.Cause(ctx)
		}
	}
	fmt.Fprintln(r.Stdout(), "1,204 payments settled")
	return object{"night": night, "payments": 1204}, nil
}

// lost registers a worker that claims a run and then stops responding.
func (f *filler) lost(ctx context.Context) error {
	if err := f.kim.post(ctx, "/job-definitions/render/runs", object{"args": object{"scene": 7}}); err != nil {
		return err
	}
	var w struct {
		WorkerID string `json:"worker_id"`
	}
	if err := f.worker.call(ctx, "POST", "/workers", object{
		"name": "gpu-1", "node": "basement", "sdk": "curl", "version": "8.5", "queues": []string{"gpu"}, "max_runs": 1,
	}, &w); err != nil {
		return err
	}
	return f.worker.post(ctx, "/workers/"+w.WorkerID+"/claim",
		object{"slots": 1, "wait_ms": 5000, "claim_id": "c-1", "start": true})
}

// webhooks adds three endpoints: one that works, one that fails, and one that is disabled.
func (f *filler) webhooks(ctx context.Context) error {
	f.services.behave("hooks/broken", "down")
	for _, h := range []object{
		{"url": f.services.url + "/hooks/orders", "description": "Orders for the shop",
			"event_types": []string{"saga.completed", "saga.failed"}},
		{"url": f.services.url + "/hooks/broken", "description": "The old reporting",
			"event_types": []string{"saga.*"}, "from": "beginning"},
		{"url": f.services.url + "/hooks/off", "description": "Not in use", "enabled": false},
	} {
		if err := f.post(ctx, "/webhooks", h); err != nil {
			return err
		}
	}
	return nil
}

// work runs a worker for the queue "default" until ctx ends.
func (f *filler) work(ctx context.Context, log *slog.Logger) error {
	w, err := worker.New(worker.Config{
		URL: f.worker.url, Credential: f.worker.credential, Name: "demo", Labels: map[string]string{"zone": "a"},
		Concurrency: 4, Drain: -1, ReportFor: time.Second, Log: log,
	})
	if err != nil {
		return err
	}
	w.Handle("report", report)
	w.Handle("settle", settle)
	w.Handle("import", func(_ context.Context, r *worker.Run) (any, error) {
		fmt.Fprintln(r.Stderr(), "line 17: the price is missing")
		return nil, &worker.Failure{Code: "BAD_FILE", Message: "line 17 of the file has no price"}
	})
	w.Handle("sleep", func(ctx context.Context, r *worker.Run) (any, error) {
		var in struct{ Seconds int }
		if err := r.Decode(&in); err != nil {
			return nil, err
		}
		for n := 1; n <= in.Seconds; n++ {
			if !loop.Sleep(ctx, time.Second) {
				return nil, context.Cause(ctx)
			}
			fmt.Fprintf(r.Stdout(), "segment %d of %d\n", n, in.Seconds)
			r.Progress(100*float64(n)/float64(in.Seconds), fmt.Sprintf("segment %d", n))
		}
		return in, nil
	})
	return w.Run(ctx)
}

func report(ctx context.Context, r *worker.Run) (any, error) {
	var in struct{ Lines int }
	if err := r.Decode(&in); err != nil {
		return nil, &worker.Failure{Code: "BAD_ARGS", Message: err.Error(), Permanent: true}
	}
	for n := range in.Lines {
		fmt.Fprintf(r.Stdout(), "\x1b[32mINFO\x1b[0m row %d of %d written\n", n+1, in.Lines)
		if n%50 == 0 && !loop.Sleep(ctx, 50*time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
	return object{"rows": in.Lines}, nil
}
