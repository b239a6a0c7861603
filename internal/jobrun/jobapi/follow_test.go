package jobapi_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/leaderdb"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/apitest"
)

// leading performs the leader's work when the test requests it.
type leading struct {
	*jobEdge
	*leaderdb.Sweeps
	set jobrun.Settings
}

func newLeading(t *testing.T) *leading {
	t.Helper()
	e := newJobEdge(t)
	base := jobdb.NewDB(e.db, jobrun.Chance{Jitter: func() float64 { return 0.5 }, NewID: uuid.New}, nil)
	return &leading{e, leaderdb.NewSweeps(base), jobrun.NewSettings(1, nil)}
}

// ahead is how long before a slot the slot's run is created.
const ahead = 4 * time.Minute

// plan contains the slots that the leader has planned in memory and not stored yet.
func (l *leading) plan(ctx context.Context) (slots []jobrun.Slot, advances []jobrun.Advance, err error) {
	now, err := l.Now(ctx)
	if err != nil {
		return nil, nil, err
	}
	due, err := l.Due(ctx, l.term, now.Add(ahead), 100)
	for i := range due {
		s, err := due[i].Spec.Schedule.Compile()
		if err != nil {
			return nil, nil, err
		}
		made, a := jobrun.PlanSlots(&due[i], s, now.Add(ahead), l.set, jobrun.Moment{Now: now, NewID: uuid.New})
		slots, advances = append(slots, made...), append(advances, a)
	}
	return slots, advances, err
}

// sweep creates the runs of slots that are near.
func (l *leading) sweep() {
	l.T.Helper()
	slots, advances, err := l.plan(l.T.Context())
	if err == nil {
		_, err = l.Materialize(l.T.Context(), l.term, slots, advances)
	}
	if err != nil {
		l.T.Fatal(err)
	}
}

// slotRun is a run of a slot.
type slotRun struct {
	at    time.Time
	state string
	why   string
}

// slotRuns returns the runs of a definition's slots after a time, with the reasons of SKIPPED ones.
func (l *leading) slotRuns(id uuid.UUID, after time.Time) (all []slotRun) {
	l.T.Helper()
	rows, err := l.db.SQL().QueryContext(l.T.Context(), `
		SELECT r.scheduled_for, r.state, coalesce((SELECT max(e.reason) FROM jobs.job_run_events e WHERE e.run_id = r.id AND e.kind = 'skipped'), '')
		  FROM jobs.job_runs r WHERE r.definition_id = $1 AND r.trigger = 'TIME' AND r.scheduled_for > $2 ORDER BY 1, 2`, id, after)
	if err == nil {
		err = postgres.EachRow(rows, func() error {
			var s slotRun
			err := rows.Scan(&s.at, &s.state, &s.why)
			all = append(all, s)
			return err
		})
	}
	if err != nil {
		l.T.Fatal(err)
	}
	return all
}

// agrees checks that next-runs, the calendar and the existing runs agree about the next minutes of
// a definition, and that these runs have the values of the definition.
func (l *leading) agrees(d *client.JobDefinition, fires bool) {
	l.T.Helper()
	from := d.UpdatedAt.Add(2 * time.Second).Truncate(time.Second) // omits slots that become due now
	to := d.UpdatedAt.Add(ahead - 5*time.Second).Truncate(time.Second)
	span := func(all []time.Time) []string {
		var out []string
		for _, at := range all {
			if !at.Before(from) && at.Before(to) {
				out = append(out, at.UTC().Format(time.TimeOnly))
			}
		}
		return out
	}
	var next client.TickList
	begin, end := "from="+from.UTC().Format(time.RFC3339), "&to="+to.UTC().Format(time.RFC3339)
	l.Send("GET", definitions+"/"+d.ID.String()+"/next-runs?count=500&"+begin, "").Into(&next)
	var calendar client.JobCalendar
	l.Send("GET", "/api/v1/job-calendar?"+begin+end, "").Into(&calendar)
	var said, shown, made []time.Time
	for _, tick := range next.Ticks {
		said = append(said, tick.At)
	}
	for _, s := range calendar.Slots {
		if s.DefinitionID == d.ID && (s.State == nil || *s.State != client.JobRunStateSKIPPED) {
			shown = append(shown, s.At)
		}
	}
	for _, s := range l.slotRuns(d.ID, from.Add(-time.Microsecond)) {
		if s.state != "SKIPPED" {
			made = append(made, s.at)
		}
	}
	if !fires {
		said = nil
	}
	if diff := cmp.Diff(span(said), span(made)); diff != "" {
		l.T.Errorf("next-runs and the runs (-said +made):\n%s", diff)
	}
	if diff := cmp.Diff(span(shown), span(made)); diff != "" {
		l.T.Errorf("the calendar and the runs (-shown +made):\n%s", diff)
	}
	if n := l.ask(`SELECT count(*) FROM jobs.job_runs r JOIN jobs.job_definitions d ON d.id = r.definition_id WHERE d.id = $1 AND r.trigger = 'TIME' AND r.state = 'PENDING'
		  AND (r.spec_version, r.definition_name, r.command_name, r.queue, r.priority, r.timeout_ms, coalesce(r.args, 'null'), r.concurrency_policy, r.labels,
		       r.concurrency_key IS NULL, r.available_at >= r.scheduled_for)
		   IS DISTINCT FROM (d.spec_version, d.name, d.command_name, d.spec->>'queue', coalesce((d.spec->>'priority')::int, 0), coalesce((d.spec->>'timeout_ms')::bigint, 0),
		       coalesce(d.spec->'default_args', 'null'), d.spec->>'concurrency_policy', d.labels, d.spec->>'concurrency_policy' = 'allow', true)`, d.ID); n != 0 {
		l.T.Errorf("%d runs that wait are not as their definition is", n)
	}
	if n := l.ask(`SELECT count(*) FROM jobs.invariants`); n != 0 {
		l.T.Errorf("%d invariants are violated", n)
	}
}

var (
	clock  = regexp.MustCompile(`@\d+s`)  // the time of day, this many seconds from now, in UTC
	moment = regexp.MustCompile(`@@\d+s`) // the same, with its date
)

// timed returns a text in which these placeholders are replaced by times.
func timed(text string) string {
	now := time.Now().UTC()
	in := func(form string) func(string) string {
		return func(what string) string {
			span, _ := time.ParseDuration(strings.TrimLeft(what, "@"))
			return now.Add(span).Format(form)
		}
	}
	text = strings.ReplaceAll(text, "@odd", now.Truncate(2*time.Second).Add(-3601*time.Second).Format(time.RFC3339))
	return clock.ReplaceAllStringFunc(moment.ReplaceAllStringFunc(text, in(time.RFC3339)), in(time.TimeOnly))
}

// TestRunsOfSlotsFollowTheirDefinition makes changes of all kinds in several ways. A future slot
// that is no longer in the schedule must not run, a future slot that is in the schedule must have
// the values of the definition, and past slots must remain.
func TestRunsOfSlotsFollowTheirDefinition(t *testing.T) {
	t.Parallel()
	const every2 = `{"type":"interval","value":"2s"}`
	for _, tt := range []struct {
		name     string
		schedule string
		changes  []string // PATCH, or "METHOD path: body"
		gone     string   // why slots are withdrawn; "": none is
		silent   bool     // the definition no longer fires
	}{
		{"a daily time is moved", `{"type":"daily_at","value":"@80s"}`, []string{`{"schedule":{"type":"daily_at","value":"@180s"}}`}, jobrun.ScheduleChanged, false},
		{"one of two daily times is moved", `{"type":"daily_at","value":"@80s,@120s"}`,
			[]string{`{"schedule":{"type":"daily_at","value":"@120s,@180s"}}`}, jobrun.ScheduleChanged, false},
		{"an interval grows", every2, []string{`{"schedule":{"type":"interval","value":"1h"}}`}, jobrun.ScheduleChanged, false},
		{"an interval shrinks", `{"type":"interval","value":"10s"}`, []string{`{"schedule":{"type":"interval","value":"5s"}}`}, "", false},
		{"an interval is counted from elsewhere", every2, []string{`{"schedule":{"type":"interval","value":"2s","start_at":"@odd"}}`}, jobrun.ScheduleChanged, false},
		{"it ends", every2, []string{`{"schedule":{"type":"interval","value":"2s","end_at":"@@60s"}}`}, jobrun.ScheduleChanged, false},
		{"it starts later", every2, []string{`{"schedule":{"type":"interval","value":"2s","start_at":"@@120s"}}`}, jobrun.ScheduleChanged, false},
		{"another zone", `{"type":"daily_at","value":"@120s"}`, []string{`{"schedule":{"type":"daily_at","value":"@120s","timezone":"Asia/Tokyo"}}`}, jobrun.ScheduleChanged, false},
		{"the same zone by another name", `{"type":"daily_at","value":"@120s"}`, []string{`{"schedule":{"type":"daily_at","value":"@120s","timezone":"Etc/UTC"}}`}, "", false},
		{"another cron expression", `{"type":"cron","value":"*/3 * * * * *"}`, []string{`{"schedule":{"type":"cron","value":"*/5 * * * * *"}}`}, jobrun.ScheduleChanged, false},
		{"policies of late slots", every2, []string{`{"misfire_policy":"catch_up","catch_up_limit":7,"misfire_grace_ms":1000}`}, "", false},
		{"what runs, and where", every2, []string{`{"command_name":"other","queue":"heavy","priority":7,"timeout_ms":90000,"max_losses":2,"default_args":{"n":2},"labels":{"a":"b"},"required_labels":{"gpu":"yes"}}`}, "", false},
		{"without arguments", every2, []string{`{"default_args":null}`}, "", false},
		{"jitter", every2, []string{`{"jitter_ms":30000}`}, "", false},
		{"one at a time", every2, []string{`{"concurrency_policy":"forbid"}`}, "", false},
		{"one at a time, and back", every2, []string{`{"concurrency_policy":"queue","concurrency_key":"k"}`, `PUT : {"name":"job","type":"time","command_name":"report","schedule":{"type":"interval","value":"2s"}}`}, "", false},
		{"another name", every2, []string{`{"name":"renamed"}`}, "", false},
		{"by hand", every2, []string{`PUT : {"name":"job","type":"manual","command_name":"report"}`}, jobrun.ScheduleChanged, true},
		{"of events", every2, []string{`PUT : {"name":"job","type":"event","command_name":"report","event":{"event_type":"paid"}}`}, jobrun.ScheduleChanged, true},
		{"disabled", every2, []string{`{"enabled":false}`}, jobrun.JobDisabled, true},
		{"disabled and moved", every2, []string{`{"enabled":false,"schedule":{"type":"interval","value":"1h"}}`}, jobrun.JobDisabled, true},
		{"disabled and enabled", every2, []string{`{"enabled":false}`, `{"enabled":true}`}, jobrun.JobDisabled, false},
		{"replaced as a whole", every2, []string{`PUT : {"name":"job","type":"time","command_name":"other","schedule":{"type":"interval","value":"3s"}}`}, jobrun.ScheduleChanged, false},
		{"there and back", every2, []string{`{"schedule":{"type":"interval","value":"1h"}}`, `{"schedule":` + every2 + `}`}, jobrun.ScheduleChanged, false},
		{"there, back and there", every2, []string{`{"schedule":{"type":"interval","value":"1h"}}`, `{"schedule":` + every2 + `}`, `{"schedule":{"type":"interval","value":"1h"}}`}, jobrun.ScheduleChanged, false},
		{"two changes", every2, []string{`{"schedule":{"type":"interval","value":"4s"}}`, `{"schedule":{"type":"interval","value":"8s"},"queue":"heavy"}`}, jobrun.ScheduleChanged, false},
		{"moved in a pause", every2, []string{`POST /pause: {"reason":"freeze"}`, `{"schedule":{"type":"interval","value":"3s"}}`, `POST /resume: {}`}, jobrun.ScheduleChanged, false},
		{"a pause alone", every2, []string{`POST /pause: {}`, `POST /resume: {}`}, "", false},
		{"words only", every2, []string{`{"description":"words"}`}, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLeading(t)
			texts := strings.Split(timed(strings.Join(append([]string{tt.schedule}, tt.changes...), "\n")), "\n")
			tt.schedule, tt.changes = texts[0], texts[1:]
			d := l.Send("POST", definitions, `{"name":"job","type":"time","command_name":"report","queue":"light","default_args":{"n":1},"schedule":`+tt.schedule+`}`).Definition(201)
			other := l.Send("POST", definitions, `{"name":"other","type":"time","command_name":"report","schedule":`+tt.schedule+`}`).Definition(201)
			l.sweep()
			others := l.slotRuns(other.ID, d.UpdatedAt)
			if len(others) == 0 {
				t.Fatal("no slot is near")
			}
			past, late := l.pastSlots(d.ID)
			manual := l.run("job", timed(`{"scheduled_for":"@@3600s"}`))
			for i, c := range tt.changes {
				if i > 0 {
					l.sweep()
				}
				method, path := "PATCH", ""
				if verb, rest, ok := strings.Cut(c, ": "); ok && c[0] != '{' {
					method, path, _ = strings.Cut(verb, " ")
					c = rest
				}
				before := d
				d = l.Send(method, definitions+"/"+d.ID.String()+path, c).Definition(http.StatusOK)
				if d.Version != before.Version+1 {
					t.Fatalf("%s changes nothing", c)
				}
			}
			why := map[string]bool{}
			for _, s := range l.slotRuns(d.ID, d.UpdatedAt) {
				if s.state == "SKIPPED" {
					why[s.why] = true
				}
			}
			if want := map[string]bool{tt.gone: true}; tt.gone == "" && len(why) > 0 || tt.gone != "" && !cmp.Equal(why, want) {
				t.Errorf("SKIPPED because of %v, want %q", why, tt.gone)
			}
			l.sweep()
			l.agrees(&d, !tt.silent)
			if n := l.ask(`SELECT count(*) FROM jobs.job_runs WHERE definition_id = $1 AND state = 'SKIPPED'`, other.ID); n != 0 {
				t.Errorf("%d runs of another job are skipped", n)
			}
			if n := l.ask(`SELECT count(*) FROM jobs.job_runs WHERE id = $1 AND state = 'PENDING' AND spec_version = 1 AND definition_name = 'job'`, manual.ID); n != 1 {
				t.Error("a run that a person made is not as it was")
			}
			if n := l.ask(`SELECT count(*) FROM jobs.job_runs WHERE id = $1 AND state = 'PENDING' AND queue = $2`, past, d.Queue); n != 1 {
				t.Error("a past slot that waits for a worker does not follow")
			}
			if n := l.ask(`SELECT count(*) FROM jobs.job_runs WHERE id = $1 AND state = 'ASSIGNED' AND spec_version = 1`, late); n != 1 {
				t.Error("a run that a worker has was changed")
			}
		})
	}
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// pastSlots stores two runs of past slots, one waiting for a worker and one held by a worker.
func (l *leading) pastSlots(id uuid.UUID) (waits, held uuid.UUID) {
	l.T.Helper()
	waits, held = uuid.New(), uuid.New()
	for i, run := range []uuid.UUID{waits, held} {
		at := time.Now().Add(time.Duration(-i-1) * time.Hour).Truncate(time.Hour)
		if _, err := l.db.SQL().ExecContext(l.T.Context(), `
			INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version, command_name, state, trigger, scheduled_for, available_at, admitted_at, queue, args,
			       idempotency_key, root_run_id, created_at, updated_at, attempt, assigned_worker_id, assigned_at, lease_token, lease_expires_at, leader_epoch)
			SELECT $1, d.tenant_id, d.id, d.name, 1, d.command_name, CASE WHEN $5 THEN 'ASSIGNED' ELSE 'PENDING' END, 'TIME', $3, $3, $3, 'light', '{"n":1}', $4, $1, $3, $3,
			       $5::int, CASE WHEN $5 THEN $1::uuid END, CASE WHEN $5 THEN now() END, CASE WHEN $5 THEN $1::uuid END, CASE WHEN $5 THEN now() + interval '1 hour' END, CASE WHEN $5 THEN 1 END
			  FROM jobs.job_definitions d WHERE d.id = $2`, run, id, at, jobrun.TimeKey(id, at), run == held); err != nil {
			l.T.Fatal(err)
		}
	}
	return waits, held
}

// Slots that the leader planned before a change are not stored after it.
func TestWhatWasPlannedBeforeAChangeIsNotMade(t *testing.T) {
	t.Parallel()
	l := newLeading(t)
	d := l.Send("POST", definitions, `{"name":"job","type":"time","command_name":"report","schedule":{"type":"interval","value":"2s"}}`).Definition(201)
	slots, advances, err := l.plan(t.Context())
	if err != nil || len(slots) < 20 {
		t.Fatal(len(slots), err)
	}
	d = l.Send("PATCH", definitions+"/job", `{"schedule":{"type":"interval","value":"1h"}}`).Definition(200)
	if made, err := l.Materialize(t.Context(), l.term, slots, advances); err != nil || made != 0 {
		t.Errorf("made %d, %v", made, err)
	}
	l.sweep()
	l.agrees(&d, true)
}

// A client that waits for a run is notified when it is withdrawn.
func TestWhoWaitsForASlotIsToldThatItIsWithdrawn(t *testing.T) {
	t.Parallel()
	l := newLeading(t)
	d := l.Send("POST", definitions, `{"name":"job","type":"time","command_name":"report","concurrency_policy":"forbid","schedule":{"type":"interval","value":"2s"}}`).Definition(201)
	l.sweep()
	l.Send("PATCH", definitions+"/job", `{"schedule":{"type":"interval","value":"1h"}}`, "X-Reason", "x").Definition(200)
	var runs client.JobRunList
	l.Send("GET", jobRuns+"?state=SKIPPED&definition="+d.ID.String(), "").Into(&runs)
	if len(runs.JobRuns) < 20 || deref(runs.JobRuns[0].SkipReason) != jobrun.ScheduleChanged {
		t.Fatalf("these are SKIPPED: %+v", runs.JobRuns)
	}
	id := runs.JobRuns[0].ID.String()
	var events client.JobEventList
	l.Send("GET", jobRuns+"/"+id+"/events", "").Into(&events)
	last := events.Events[len(events.Events)-1]
	if deref(last.Reason) != jobrun.ScheduleChanged || deref(last.Actor) == "" {
		t.Errorf("the decision is told as %+v", last)
	}
	l.Send("POST", jobRuns+"/"+id+"/cancel", `{}`).Wants(http.StatusConflict, "JOB_STATE_CONFLICT")
	// The withdrawn run blocks nothing: the key is free for a manual run once the runs that became
	// due before the change have ended.
	l.Send("GET", jobRuns+"?state=PENDING&definition="+d.ID.String(), "").Into(&runs)
	for _, r := range runs.JobRuns {
		l.Send("POST", jobRuns+"/"+r.ID.String()+"/cancel", `{}`).Wants2xx()
	}
	l.run("job", `{}`)
}

// TestChangesRaceWithTheLeaderAndWorkers checks that, in any order of events, each change is
// accepted, nothing fires that was not in the schedule when it was due, and all views agree at the end.
func TestChangesRaceWithTheLeaderAndWorkers(t *testing.T) {
	t.Parallel()
	l := newLeading(t)
	d := l.Send("POST", definitions, `{"name":"job","type":"time","command_name":"report","schedule":{"type":"interval","value":"1s"}}`).Definition(201)
	worker, _ := l.claim(1, false)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var failed atomic.Value
	loop := func(what string, do func() error) {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := do(); err != nil && ctx.Err() == nil && !postgres.Collided(err) {
					failed.Store(fmt.Errorf("%s: %w", what, err))
				}
			}
		})
	}
	bg := context.WithoutCancel(ctx)
	loop("make", func() error {
		slots, advances, err := l.plan(bg)
		if err == nil {
			_, err = l.Materialize(bg, l.term, slots, advances)
		}
		return err
	})
	loop("admit", func() error { _, err := l.Admit(bg, l.term, l.set, 1000); return err })
	loop("claim", func() error {
		_, err := l.work.Claim(bg, jobrun.ClaimRequest{TenantID: apitest.Tenant.ID, WorkerID: worker, Slots: 100})
		return err
	})
	bodies := []string{
		`{"schedule":{"type":"interval","value":"1h"}}`, `{"schedule":{"type":"interval","value":"2s"}}`, `{"enabled":false}`, `{"enabled":true,"concurrency_policy":"queue"}`,
		`{"concurrency_policy":"allow","timeout_ms":5000}`, `{"schedule":{"type":"interval","value":"1s"},"priority":3}`,
	}
	for range 12 {
		for _, b := range bodies {
			d = l.Send("PATCH", definitions+"/job", b).Definition(http.StatusOK)
		}
	}
	stop()
	all.Wait()
	if err := failed.Load(); err != nil {
		t.Error(err)
	}
	l.sweep()
	l.agrees(&d, true)
	if n := l.ask(`SELECT count(*) FROM (SELECT FROM jobs.job_runs WHERE definition_id = $1 AND NOT withdrawn GROUP BY scheduled_for HAVING count(*) > 1) AS s`, d.ID); n > 0 {
		t.Errorf("%d slots have two runs", n)
	}
	early := func(s slotRun) bool { return s.state == "ASSIGNED" && s.at.After(time.Now()) }
	if slices.ContainsFunc(l.slotRuns(d.ID, d.UpdatedAt), early) {
		t.Error("a worker has a run whose slot has not come")
	}
}
