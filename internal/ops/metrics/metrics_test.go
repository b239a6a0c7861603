package metrics_test

import (
	"bufio"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/ops/metrics"
	"github.com/skald-saga/skald/internal/ops/storage"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return noon }

func idle() (running, waiting int) { return 0, 0 }

// scrape reads what Prometheus would, as "name{labels}" and value, without the
// buckets of histograms and what is of Go and of the process.
func scrape(t *testing.T, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	samples := map[string]float64{}
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if !strings.HasPrefix(name, "skald_") || strings.Contains(name, "_bucket{") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		samples[name] = v
	}
	return samples
}

// Each report sets these samples to these values and changes no others.
func TestEachReportIsSeenInItsMetrics(t *testing.T) {
	ended := &saga.Saga{State: saga.Compensated, CreatedAt: noon, CompletedAt: new(noon.Add(2 * time.Second))}
	for _, tt := range []struct {
		name   string
		report func(m *metrics.Metrics)
		want   map[string]float64
	}{
		{"a saga", (*metrics.Metrics).Created, map[string]float64{"skald_sagas_created_total": 1}},
		{"an end", func(m *metrics.Metrics) { m.Engine().Ended(ended) }, map[string]float64{
			`skald_sagas_ended_total{state="compensated"}`:           1,
			`skald_saga_duration_seconds_sum{state="compensated"}`:   2,
			`skald_saga_duration_seconds_count{state="compensated"}`: 1,
		}},
		{"gates", func(m *metrics.Metrics) {
			m.Gates(map[registry.State]int{registry.Open: 3, registry.Held: 2, registry.Releasing: 1})
		}, map[string]float64{
			`skald_participants{state="OPEN"}`: 3, `skald_participants{state="HELD"}`: 2,
			`skald_participants{state="RELEASING"}`: 1,
		}},
		{"a call that is done", func(m *metrics.Metrics) {
			m.Engine().CallDone(saga.Execute, &saga.Outcome{Verdict: saga.Done, StartedAt: noon, EndedAt: noon.Add(time.Second)})
		}, map[string]float64{
			`skald_step_calls_total{action="EXECUTE",result="done"}`: 1,
			`skald_step_call_seconds_sum{action="EXECUTE"}`:          1,
			`skald_step_call_seconds_count{action="EXECUTE"}`:        1,
		}},
		{"a call that is not", func(m *metrics.Metrics) {
			m.Engine().CallDone(saga.Compensate, &saga.Outcome{Verdict: saga.Unknown, Class: "timeout", StartedAt: noon,
				EndedAt: noon.Add(time.Second)})
		}, map[string]float64{
			`skald_step_calls_total{action="COMPENSATE",result="timeout"}`: 1,
			`skald_step_call_seconds_sum{action="COMPENSATE"}`:             1,
			`skald_step_call_seconds_count{action="COMPENSATE"}`:           1,
		}},
		{"claims", func(m *metrics.Metrics) { m.Engine().Claimed(3) }, map[string]float64{"skald_sagas_claimed_total": 3}},
		{"a batch", func(m *metrics.Metrics) { m.Batch("create")(7) }, map[string]float64{
			`skald_commit_batch_size_sum{kind="create"}`: 7, `skald_commit_batch_size_count{kind="create"}`: 1,
		}},
		{"events", func(m *metrics.Metrics) { m.EventsWritten(5) }, map[string]float64{"skald_audit_events_written_total": 5}},
		{"waiting", func(m *metrics.Metrics) { m.Waiting(2) }, map[string]float64{"skald_waiting_requests": 2}},
		{"streams", func(m *metrics.Metrics) { m.Streams(2) }, map[string]float64{"skald_event_streams": 2}},
		{"archived sagas", func(m *metrics.Metrics) { m.Archived(4) }, map[string]float64{"skald_sagas_archived_total": 4}},
		{"a saga without progress", func(m *metrics.Metrics) { m.Stalled("no_owner") }, map[string]float64{`skald_sagas_stalled_total{reason="no_owner"}`: 1}},
		{"an attempt to deliver", func(m *metrics.Metrics) { m.Webhooks().Attempted("retried") }, map[string]float64{`skald_webhook_attempts_total{result="retried"}`: 1}},
		{"a webhook that is disabled", func(m *metrics.Metrics) { m.Webhooks().Disabled() }, map[string]float64{"skald_webhooks_disabled_total": 1}},
		{"what webhooks have not got", func(m *metrics.Metrics) { m.Webhooks().Backlog(9, time.Minute) }, map[string]float64{"skald_webhook_deliveries_pending": 9, "skald_webhook_lag_seconds": 60}},
		{"what Kafka has", func(m *metrics.Metrics) {
			m.AuditTopic().Published(6)
			m.AuditTopic().Lag(time.Minute)
			m.AuditTopic().Leading(true)
		},
			map[string]float64{
				"skald_kafka_events_published_total": 6, "skald_kafka_lag_seconds": 60, "skald_kafka_leader": 1,
			}},
		{"what Kafka has not", func(m *metrics.Metrics) { m.AuditTopic().Failed() }, map[string]float64{
			"skald_kafka_publish_failures_total": 1,
		}},
		{"letters that are driven", func(m *metrics.Metrics) {
			m.Letters(clock).Drove(dlq.ToHTTP, dlq.FailedDrive)
		}, map[string]float64{
			`skald_dead_letter_drives_total{kind="http",outcome="` + string(dlq.FailedDrive) + `"}`: 1,
		}},
		{"letters that go", func(m *metrics.Metrics) {
			m.Letters(clock).Reclaimed(1)
			m.Letters(clock).Archived(2)
			m.Letters(clock).Purged(3)
		},
			map[string]float64{
				"skald_dead_letters_reclaimed_total": 1,
				"skald_dead_letters_archived_total":  2,
				"skald_dead_letters_purged_total":    3,
			}},
		{"records that are read", func(m *metrics.Metrics) {
			m.Ingest().Stored(10, 8)
			m.Ingest().Refused()
			m.Ingest().Failed()
			m.Ingest().Held(2)
			m.Ingest().Lag(7)
		}, map[string]float64{
			"skald_dlq_ingest_records_total":  10,
			"skald_dlq_ingest_letters_total":  8,
			"skald_dlq_ingest_batches_total":  1,
			"skald_dlq_ingest_reduced_total":  1,
			"skald_dlq_ingest_failures_total": 1, "skald_dlq_ingest_held_total": 2, "skald_dlq_ingest_lag_records": 7,
		}},
		{"records that are events", func(m *metrics.Metrics) {
			m.Sources().Stored(10, 8)
			m.Sources().NoEvent()
			m.Sources().Held(3)
			m.Sources().Failed()
			m.Sources().Lag(7)
			m.Sources().Paused(true)
		}, map[string]float64{
			"skald_kafka_source_records_total": 10, "skald_kafka_source_events_total": 8, "skald_kafka_source_refused_total": 1,
			"skald_kafka_source_skipped_total": 3, "skald_kafka_source_failures_total": 1, "skald_kafka_source_lag_records": 7,
			"skald_kafka_source_paused": 1,
		}},
		{"events of job runs", func(m *metrics.Metrics) {
			m.EmittedEvents().Published(6)
			m.EmittedEvents().Refused()
			m.EmittedEvents().Failed()
			m.EmittedEvents().Lag(time.Minute)
			m.EmittedEvents().Leading(true)
		}, map[string]float64{
			"skald_kafka_emitted_events_published_total": 6, "skald_kafka_emitted_events_refused_total": 1,
			"skald_kafka_emitted_failures_total": 1, "skald_kafka_emitted_lag_seconds": 60, "skald_kafka_emitted_leader": 1,
		}},
		{"reading that waits", func(m *metrics.Metrics) { m.Ingest().Paused(true) }, map[string]float64{"skald_dlq_ingest_paused": 1}},
		{"logs that move", func(m *metrics.Metrics) { m.LogsMoved(2, 1, 3, 100) }, map[string]float64{
			`skald_job_logs_offloaded_total{outcome="moved"}`: 2, `skald_job_logs_offloaded_total{outcome="failed"}`: 1,
			"skald_job_log_bytes_offloaded_total": 100, "skald_job_runs_purged_total": 3,
		}},
		{"hints that are lost", func(m *metrics.Metrics) { m.Hinted(2, true, time.Second) }, map[string]float64{
			`skald_job_lease_hints_total{outcome="lost"}`: 2, "skald_job_lease_hint_seconds_total": 1,
		}},
		{"hints that are answered", func(m *metrics.Metrics) { m.Hinted(2, false, time.Second) }, map[string]float64{
			`skald_job_lease_hints_total{outcome="answered"}`: 2, "skald_job_lease_hint_seconds_total": 1,
		}},
		{"a sweep", func(m *metrics.Metrics) { m.Scheduler(clock).Swept("slots", 5, time.Second, nil) }, map[string]float64{
			`skald_job_sweep_rows_total{sweep="slots"}`:    5,
			`skald_job_sweep_seconds_sum{sweep="slots"}`:   1,
			`skald_job_sweep_seconds_count{sweep="slots"}`: 1,
		}},
		{"a sweep that fails", func(m *metrics.Metrics) {
			m.Scheduler(clock).Swept("slots", 0, time.Second, io.ErrUnexpectedEOF)
		}, map[string]float64{
			`skald_job_sweep_rows_total{sweep="slots"}`:     0,
			`skald_job_sweep_seconds_sum{sweep="slots"}`:    1,
			`skald_job_sweep_seconds_count{sweep="slots"}`:  1,
			`skald_job_sweep_failures_total{sweep="slots"}`: 1,
		}},
	} {
		m := metrics.New(idle)
		before := scrape(t, m)
		tt.report(m)
		after := scrape(t, m)
		maps.DeleteFunc(after, func(name string, v float64) bool { was, is := before[name]; return is && was == v })
		if diff := cmp.Diff(tt.want, after); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestALoopReportsTheTimeOfItsLastRound(t *testing.T) {
	m, began := metrics.New(idle), time.Now()
	m.Sealed(3, time.Minute)
	m.ActionsSealed(4, time.Minute)
	got := scrape(t, m)
	for _, loop := range []string{"seal", "seal_actions"} {
		at := got[`skald_loop_last_success_timestamp_seconds{loop="`+loop+`"}`]
		if first, last := float64(began.UnixMilli())/1000, float64(time.Now().UnixMilli())/1000; at < first || at > last {
			t.Errorf("%s: %f, want between %f and %f", loop, at, first, last)
		}
	}
	if got["skald_audit_events_sealed_total"] != 3 || got["skald_audit_actions_sealed_total"] != 4 ||
		got["skald_audit_feed_lag_seconds"] != 60 {
		t.Errorf("%v", got)
	}
}

// A gauge that is not told of what is gone would show it forever.
func TestWhatIsGoneIsNotShownAnyMore(t *testing.T) {
	m := metrics.New(idle)
	shown := func(prefix string) []string {
		t.Helper()
		var names []string
		for name := range scrape(t, m) {
			if strings.HasPrefix(name, prefix) {
				names = append(names, strings.TrimPrefix(name, prefix))
			}
		}
		slices.Sort(names)
		return names
	}
	expect := func(prefix string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, shown(prefix)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", prefix, diff)
		}
	}
	m.Measured(storage.Storage{Tables: []storage.Table{{Name: "gone"}, {Name: "kept"}}})
	m.Measured(storage.Storage{Tables: []storage.Table{{Name: "kept", HeapBytes: 3}}})
	expect("skald_table_bytes", `{part="heap",table="kept"}`, `{part="index",table="kept"}`, `{part="toast",table="kept"}`)
	expect("skald_table_tuples", `{kind="dead",table="kept"}`, `{kind="live",table="kept"}`)
	m.Measured(storage.Storage{Snapshot: &storage.Snapshot{Age: 90 * time.Second, Transactions: 7}})
	got := scrape(t, m)
	if got[`skald_postgres_oldest_snapshot{unit="seconds"}`] != 90 || got[`skald_postgres_oldest_snapshot{unit="transactions"}`] != 7 {
		t.Errorf("the oldest snapshot is shown as %v", shown("skald_postgres_oldest_snapshot"))
	}
	m.Measured(storage.Storage{}) // which may not see it
	expect("skald_postgres_oldest_snapshot")

	m.Ingest().Topics([]string{"a.dlq", "b.dlq"}, []string{"C.DLQ"})
	m.Ingest().Topics([]string{"b.dlq"}, nil)
	expect("skald_dlq_ingest_topic", `{match="read",topic="b.dlq"}`)

	m.Scheduler(clock).Leads(true, 7)
	m.Scheduler(clock).Backlog(jobrun.Backlog{
		Waiting: 1, Claimable: 2, Held: 6, Assigned: 3, Running: 9, Doubted: 4, Oldest: noon.Add(-time.Minute),
	})
	got = scrape(t, m)
	maps.DeleteFunc(got, func(name string, _ float64) bool {
		return !strings.HasPrefix(name, "skald_job_runs{") && !strings.HasPrefix(name, "skald_job_leader") &&
			name != "skald_job_runs_claimable_age_seconds"
	})
	want := map[string]float64{
		"skald_job_leader": 1, "skald_job_leader_epoch": 7, "skald_job_runs_claimable_age_seconds": 60,
		`skald_job_runs{state="waiting"}`: 1, `skald_job_runs{state="claimable"}`: 2, `skald_job_runs{state="held"}`: 6,
		`skald_job_runs{state="assigned"}`: 3,
		`skald_job_runs{state="running"}`:  5, `skald_job_runs{state="confirming"}`: 4, // who is in doubt runs, too
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of the leader (-want +got):\n%s", diff)
	}
	m.Scheduler(clock).Leads(false, 7)
	for name, v := range scrape(t, m) {
		if strings.HasPrefix(name, "skald_job_runs{") && v != 0 {
			t.Errorf("of a former leader: %s is %v", name, v)
		}
	}
	if got := scrape(t, m); got["skald_job_leader"] != 0 || got["skald_job_runs_claimable_age_seconds"] != 0 ||
		got["skald_job_leader_epoch"] != 7 {
		t.Errorf("of a former leader: %v", got)
	}
}

func TestAgesAreNeverNegative(t *testing.T) {
	m := metrics.New(idle)
	ahead := noon.Add(time.Minute) // by the clock of another machine
	m.Letters(clock).Backlog(dlq.Backlog{ByStatus: map[dlq.Status]int64{dlq.Pending: 2, dlq.Resolved: 9}, Oldest: ahead})
	m.Scheduler(clock).Backlog(jobrun.Backlog{Oldest: ahead})
	got := scrape(t, m)
	if got["skald_dead_letters_pending_age_seconds"] != 0 || got["skald_job_runs_claimable_age_seconds"] != 0 {
		t.Errorf("%v", got)
	}
	if n, is := got[`skald_dead_letters{status="RESOLVED"}`]; is {
		t.Errorf("%v resolved letters are shown as unresolved", n)
	}
	m.Letters(clock).Backlog(dlq.Backlog{Oldest: noon.Add(-time.Hour), Leaving: 3})
	got = scrape(t, m)
	if got["skald_dead_letters_archived_within_week"] != 3 {
		t.Errorf("%v", got)
	}
	if got["skald_dead_letters_pending_age_seconds"] != 3600 || got[`skald_dead_letters{status="PENDING"}`] != 0 {
		t.Errorf("%v", got)
	}
}

func TestTheStatesOfLiveSagasAreAllShown(t *testing.T) {
	m := metrics.New(idle)
	m.Counted(1, map[saga.State]int{saga.Running: 3, saga.Completed: 8})
	m.Counted(0, map[saga.State]int{saga.Pending: 2})
	got := scrape(t, m)
	if got["skald_sagas_stuck"] != 0 {
		t.Errorf("%v sagas are stuck", got["skald_sagas_stuck"])
	}
	for _, s := range saga.States {
		n, is := got[`skald_sagas_live{state="`+s.String()+`"}`]
		if want := map[saga.State]float64{saga.Pending: 2}[s]; is == s.Terminal() || n != want {
			t.Errorf("%s: %v, shown %t; want %v, and only those that have not ended", s, n, is, want)
		}
	}
}

func TestTheLoadAndTheLoginAreReadWhenTheyAreAskedFor(t *testing.T) {
	running, login := 1, metrics.Logins{}
	m := metrics.New(func() (int, int) { return running, 2 * running })
	m.WatchLogins(func() metrics.Logins { return login })
	expect := func(want map[string]float64) {
		t.Helper()
		got := scrape(t, m)
		for name, v := range want {
			if g, is := got[name]; !is || g != v {
				t.Errorf("%s is %v, want %v", name, g, v)
			}
		}
	}
	const prefix = "skald_database_login_"
	expect(
		map[string]float64{
			"skald_engine_running":                   1,
			"skald_engine_waiting":                   2,
			prefix + "renewed_total":                 0,
			prefix + "valid_until_timestamp_seconds": 0,
		},
	)
	running, login = 5, metrics.Logins{Renewed: 2, Failed: 3, LastSuccess: noon, ValidUntil: noon.Add(time.Hour)}
	at := float64(noon.Unix())
	expect(map[string]float64{
		"skald_engine_running": 5, "skald_engine_waiting": 10, prefix + "renewed_total": 2, prefix + "failed_total": 3,
		prefix + "last_success_timestamp_seconds": at, prefix + "valid_until_timestamp_seconds": at + 3600,
	})
}

func TestRequestsAreCountedByMethodAndCode(t *testing.T) {
	m := metrics.New(idle)
	h := m.Instrument(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusConflict)
		}
	}))
	for _, method := range []string{"GET", "POST", "GET"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, "/", http.NoBody))
	}
	got := scrape(t, m)
	for name, want := range map[string]float64{
		`skald_http_requests_total{code="200",method="get"}`: 2, `skald_http_requests_total{code="409",method="post"}`: 1,
		`skald_http_request_seconds_count{code="200",method="get"}`:  2,
		`skald_http_request_seconds_count{code="409",method="post"}`: 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}
