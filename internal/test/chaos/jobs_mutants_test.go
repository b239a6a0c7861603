package chaos

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/saga"
)

var soundEpoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// validJobRecord returns a record without violations: three slots, one of which was skipped; a run
// whose first worker was stopped and came back as a zombie; a chain of two failures with its
// letter; a saga; and an event.
func validJobRecord() *jobRecord {
	at := func(s float64) time.Time { return soundEpoch.Add(time.Duration(s * float64(time.Second))) }
	tick := &job{name: "tick", due: everySeconds(1), from: at(0), to: at(3), attempts: 1, losses: 2}
	flaky := &job{name: "flaky", attempts: 2, losses: 2, letter: true, asked: true}
	emitter := &job{name: "emitter", attempts: 1, losses: 2, manner: manner{EmitType: "chain.done"}, asked: true}
	r := &jobRecord{
		jobs:     []*job{tick, flaky, emitter, {name: "listener", attempts: 1, losses: 2, listens: "chain."}},
		runs:     map[string]*jobRow{},
		letters:  map[string]int{"f2": 1},
		detached: map[string]bool{},
		logs:     map[string]string{"t1/1/0": "line"},
		lives:    map[string]life{"w1": {stops: []span{{2e9, 9e9}}}, "w2": {}},
		sagas:    []sagaRow{{id: "s", state: saga.Completed.String(), done: map[string]int{jobBook: 1, jobBill: 1}}},
	}
	r.reigns = []leaderTerm{{at: at(-1), epoch: 1, leader: "A"}, {at: at(4), epoch: 2, leader: "B"}}
	for s := 0.0; s < 30; s += 0.5 {
		r.reigns = append(r.reigns, leaderTerm{at: at(4.1 + s), epoch: 2, leader: "B", round: true})
	}
	row := func(id, job, trigger, state string, attempt int) *jobRow {
		run := &jobRow{id: id, job: job, trigger: trigger, state: state, attempt: attempt, max: 2}
		r.runs[id] = run
		return run
	}
	// moves takes a run through states; the workers of its attempts are w1, w2, and so on.
	moves := func(run *jobRow, key string, states ...string) {
		from, n := "", int64(0)
		attempt, token := 0, ""
		for i, to := range states {
			m := move{
				n:            int64(len(r.moves)),
				run:          run.id,
				at:           at(float64(i)),
				version:      n + 1,
				from:         from,
				to:           to,
				oldToken:     token,
				continuation: "NONE",
				before:       "NONE",
				epoch:        1,
				key:          key,
				finished:     slices.Contains(terminalStates, to),
				oldLease:     at(float64(i) - 0.2),
				oldDeadline:  at(float64(i) - 0.2),
			}
			if to == "ASSIGNED" {
				attempt++
				token = fmt.Sprint(run.id, "-", attempt)
			}
			if from == "RUNNING" && to == "RUNNING" {
				m.continuation = "CONFIRMING"
			}
			if to == "ORPHANED" {
				m.before = "CONFIRMING"
				r.attempts = append(
					r.attempts,
					attemptRow{
						run:      run.id,
						number:   attempt,
						token:    token,
						epoch:    1,
						assigned: at(0),
						ended:    m.at,
						outcome:  "ORPHANED",
					},
				)
				r.decisions = append(
					r.decisions,
					decision{
						run:      run.id,
						kind:     "orphaned",
						from:     from,
						to:       to,
						version:  n + 1,
						attempt:  attempt,
						at:       m.at,
						epoch:    1,
						ledEpoch: 1,
						leader:   "A",
					},
				)
				run.losses++
			}
			m.attempt, m.token, m.worker = attempt, token, fmt.Sprint("w", attempt)
			r.moves = append(r.moves, m)
			from, n = to, n+1
		}
		run.version, run.token, run.epoch = n, token, 1
		run.resultToken = token
		if slices.Contains([]string{"FAILED", "TIMED_OUT", "SKIPPED", "CANCELED"}, run.state) {
			r.decisions = append(
				r.decisions,
				decision{
					run:     run.id,
					kind:    "ended",
					from:    states[len(states)-2],
					to:      run.state,
					version: n,
					attempt: attempt,
					reason:  "so it is",
				},
			)
		}
	}
	work := func(process string, run *jobRow, attempt int, from, to int64, call, outcome string, status int) {
		e := entry{
			Run:     run.id,
			Job:     run.job,
			Attempt: attempt,
			Token:   fmt.Sprint(run.id, "-", attempt),
			Epoch:   1,
			process: process,
			Key:     run.key,
		}
		tell := func(kind string, mono int64) *entry {
			e.Kind, e.Mono = kind, mono
			r.journal = append(r.journal, e)
			return &r.journal[len(r.journal)-1]
		}
		tell(didBegin, from)
		tell(didEnd, to)
		i := tell(didIntend, to)
		i.Call, i.Outcome = call, outcome
		h := tell(didHear, to)
		h.Call, h.Outcome, h.Status = call, outcome, status
	}
	for i, state := range []string{"SUCCEEDED", "SUCCEEDED"} {
		run := row(fmt.Sprint("t", i), "tick", "TIME", state, 1+i)
		run.scheduled = at(float64(i))
		if i == 0 {
			moves(run, "", "PENDING", "ASSIGNED", "RUNNING", "SUCCEEDED")
			work("w2", run, 1, 1e9, 2e9, "complete", "SUCCEEDED", 200)
			continue
		}
		run.key = "k"
		moves(run, "k", "PENDING", "ASSIGNED", "RUNNING", "RUNNING", "ORPHANED", "ASSIGNED", "RUNNING", "SUCCEEDED")
		work("w1", run, 1, 1e9, 9e9, "complete", "SUCCEEDED", 409)
		work("w2", run, 2, 6e9, 8e9, "complete", "SUCCEEDED", 200)
	}
	skipped := row("t2", "tick", "TIME", "SKIPPED", 0)
	skipped.scheduled = at(2)
	moves(skipped, "", "PENDING", "SKIPPED")
	for i, id := range []string{"f1", "f2"} {
		run := row(id, "flaky", []string{"MANUAL", "RETRY"}[i], "FAILED", 1)
		run.retry, run.failures, run.retryable = i, i+1, true
		if i == 1 {
			run.retryOf = "f1"
		} else {
			run.idempotent = "manual:a"
		}
		moves(run, "", "PENDING", "ASSIGNED", "RUNNING", "FAILED")
		work("w2", run, 1, 1e9, 2e9, "fail", "FAILED", 200)
	}
	e := row("e1", "emitter", "MANUAL", "SUCCEEDED", 1)
	e.idempotent = "manual:b"
	moves(e, "", "PENDING", "ASSIGNED", "RUNNING", "SUCCEEDED")
	work("w2", e, 1, 1e9, 2e9, "complete", "SUCCEEDED", 200)
	heard := row("l1", "listener", "EVENT", "CANCELED", 0)
	heard.event = "ev"
	moves(heard, "", "PENDING", "CANCELED")
	r.published = []publishedRow{
		{id: "ev", kind: "chain.done", dedupe: "e1", source: "e1", processed: true, deliveries: 1, runs: 1},
	}
	r.asked = []*wish{
		{job: "flaky", key: "a", ids: []string{"f1", "f1"}},
		{job: "emitter", key: "b", ids: []string{"e1"}},
		{job: "flaky", key: "c", refused: true},
	}
	r.journal = append(r.journal, entry{Kind: didLog, Run: "t1", Attempt: 1, Seq: 0, Text: "line", process: "w1"})
	return r
}

// TestTheJudgeOfJobRunsSeesWhatIsWrong gives the judge records with one defect each: a rule that
// can't fail proves nothing.
func TestTheJudgeOfJobRunsSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	if v := judgeJobs(validJobRecord()); len(v.violations) > 0 {
		t.Fatalf("the sound record: %v", v.violations)
	}
	find := func(r *jobRecord, run, to string) *move {
		i := slices.IndexFunc(r.moves, func(m move) bool { return m.run == run && m.to == to })
		return &r.moves[i]
	}
	hear := func(r *jobRecord, run string, status int) *entry {
		i := slices.IndexFunc(
			r.journal,
			func(e entry) bool { return e.Run == run && e.Kind == didHear && e.Status == status },
		)
		return &r.journal[i]
	}
	for _, c := range []struct {
		invariant, what string
		spoil           func(*jobRecord)
	}{
		{"J1", "a slot fires twice", func(r *jobRecord) { r.runs["t1"].scheduled = r.runs["t0"].scheduled }},
		{"J8", "a slot is missing", func(r *jobRecord) { delete(r.runs, "t0") }},
		{"J8", "a run of no slot", func(r *jobRecord) { r.runs["t0"].scheduled = soundEpoch.Add(time.Hour) }},
		{"J8", "a slot is skipped without a reason", func(r *jobRecord) {
			for i := range r.decisions {
				r.decisions[i].reason = ""
			}
		}},
		{"J2", "running for two", func(r *jobRecord) {
			m := *find(r, "t1", "RUNNING")
			m.worker, m.from = "w9", "RUNNING"
			i := slices.IndexFunc(r.moves, func(m move) bool { return m.run == "t1" && m.to == "RUNNING" })
			r.moves = slices.Insert(r.moves, i+1, m)
		}},
		{"J2", "an attempt is not on record", func(r *jobRecord) { r.attempts = nil }},
		{"J2", "attempts overlap", func(r *jobRecord) { r.attempts[0].ended = r.attempts[0].ended.Add(time.Hour) }},
		{"J2", "a token is used twice", func(r *jobRecord) {
			r.attempts = append(r.attempts, attemptRow{run: "t0", number: 1, token: r.attempts[0].token})
		}},
		{"J3", "a zombie's result was recorded", func(r *jobRecord) { hear(r, "t1", 200).Status = 409 }},
		{"J3", "a zombie was accepted", func(r *jobRecord) { hear(r, "t1", 409).Status = 200 }},
		{"J3", "an accepted failure became a success", func(r *jobRecord) { r.runs["f1"].state = "SUCCEEDED" }},
		{"J3", "a success that nobody reported", func(r *jobRecord) {
			r.journal = slices.DeleteFunc(r.journal, func(e entry) bool { return e.Run == "t0" && e.Kind == didIntend })
		}},
		{"J3", "the result of another attempt", func(r *jobRecord) { r.runs["t0"].resultToken = "other" }},
		{"J4", "executions overlap though nobody was stopped", func(r *jobRecord) { r.lives["w1"] = life{} }},
		{"J4", "an attempt is begun twice", func(r *jobRecord) { r.journal = append(r.journal, r.journal[0]) }},
		{"J5", "an epoch falls", func(r *jobRecord) { r.reigns = append(r.reigns, leaderTerm{at: soundEpoch, epoch: 1, leader: "A"}) }},
		{"J5", "two lead one epoch", func(r *jobRecord) { r.reigns[len(r.reigns)-1].leader = "C" }},
		{"J5", "a decision of an old term", func(r *jobRecord) { r.decisions[0].ledEpoch, r.decisions[0].leader = 2, "B" }},
		{"J5", "an assignment under no epoch", func(r *jobRecord) { find(r, "t0", "ASSIGNED").epoch = 9 }},
		{"J6", "a way back", func(r *jobRecord) { find(r, "t0", "RUNNING").to = "PENDING" }},
		{"J6", "the version stays", func(r *jobRecord) { find(r, "t0", "RUNNING").version-- }},
		{"J6", "a move after the end", func(r *jobRecord) {
			r.moves = append(r.moves, move{run: "t0", from: "SUCCEEDED", to: "FAILED", version: 9})
		}},
		{"J6", "the token stays", func(r *jobRecord) { find(r, "t0", "ASSIGNED").token = "" }},
		{"J6", "a decision that did not happen", func(r *jobRecord) { r.decisions[0].version = 99 }},
		{"J7", "given up too late", func(r *jobRecord) {
			m := find(r, "t1", "ORPHANED")
			m.oldDeadline, m.at = soundEpoch.Add(5*time.Second), soundEpoch.Add(20*time.Second)
		}},
		{"J7", "given up too early", func(r *jobRecord) { m := find(r, "t1", "ORPHANED"); m.oldDeadline = m.at.Add(time.Second) }},
		{"J7", "given up without a doubt", func(r *jobRecord) { find(r, "t1", "ORPHANED").before = "NONE" }},
		{"J7", "left lying", func(r *jobRecord) { r.runs["l1"].state = "ORPHANED" }},
		{"J9", "a line is lost", func(r *jobRecord) { delete(r.logs, "t1/1/0") }},
		{"J9", "a log in two places", func(r *jobRecord) { r.runs["t1"].logRef, r.runs["t1"].chunks = "file", 1 }},
		{"S18", "two have a key", func(r *jobRecord) {
			m := *find(r, "t1", "ASSIGNED")
			m.run = "t0"
			r.moves = slices.Insert(r.moves, int(m.n)+1, m)
		}},
		{"J0", "a run is not there", func(r *jobRecord) { r.asked[0].ids[0] = "f9" }},
		{"J0", "a key stands for two", func(r *jobRecord) { r.asked[0].ids[1] = "e1" }},
		{"J0", "a run that nobody asked for", func(r *jobRecord) { r.asked = r.asked[1:] }},
		{"J0", "an accepted event is not there", func(r *jobRecord) { r.asked = append(r.asked, &wish{kind: ofEvent, key: "x", ids: []string{"x"}}) }},
		{"S7", "losses are not counted", func(r *jobRecord) { r.runs["t1"].losses = 0 }},
		{"S7", "a loss that did not happen", func(r *jobRecord) { r.runs["t1"].losses++ }},
		{"S7", "too many losses", func(r *jobRecord) { r.jobs[0].losses = 0 }},
		{"S7", "too many failures", func(r *jobRecord) { r.jobs[1].attempts = 1 }},
		{"S5", "a retry is missing", func(r *jobRecord) { r.runs["f2"].retryOf = "" }},
		{"S5", "a retry too many", func(r *jobRecord) { r.runs["t0"].trigger, r.runs["t0"].retryOf = "RETRY", "f1" }},
		{"J0", "a letter is missing", func(r *jobRecord) { delete(r.letters, "f2") }},
		{"J0", "two letters", func(r *jobRecord) { r.letters["f2"] = 2 }},
		{"J0", "a letter of what went well", func(r *jobRecord) { r.letters["t0"] = 1 }},
		{"J0", "an event is missing", func(r *jobRecord) { r.published = nil }},
		{"J0", "an event has made no run", func(r *jobRecord) { r.published[0].runs = 0 }},
		{"J0", "an event was left by a failure", func(r *jobRecord) { r.published[0].source = "f1" }},
		{"O4", "an answer that nobody should get", func(r *jobRecord) { r.journal = append(r.journal, entry{Kind: didMeet, Status: 500}) }},
		{"J0", "a saga without its run", func(r *jobRecord) { r.sagas[0].done = nil }},
		{"J0", "a saga that was turned back and not undone", func(r *jobRecord) {
			r.sagas[0] = sagaRow{"s", saga.Compensated.String(), map[string]int{jobBook: 1}}
		}},
		{"J0", "an accepted saga is not there", func(r *jobRecord) { r.asked = append(r.asked, &wish{kind: ofSaga, ids: []string{"x"}}) }},
		{"J0", "a saga that hangs", func(r *jobRecord) { r.sagas[0].state = "EXECUTING" }},
	} {
		r := validJobRecord()
		c.spoil(r)
		if v := judgeJobs(r); !slices.ContainsFunc(
			v.violations,
			func(f violation) bool { return f.Invariant == c.invariant },
		) {
			t.Errorf("%s: no %s among %v", c.what, c.invariant, v.violations)
		}
	}
}

// TestTheJudgeKnowsClaimsThatStart: a claim that starts its run is one change but two transitions,
// and the judge checks each of them.
func TestTheJudgeKnowsClaimsThatStart(t *testing.T) {
	for _, c := range []struct {
		what  string
		spoil func(*move)
		wrong bool
	}{
		{"as it is", func(*move) {}, false},
		{"one version", func(m *move) { m.version-- }, true},
		{"no new attempt", func(m *move) { m.attempt-- }, true},
		{"no new token", func(m *move) { m.token = m.oldToken }, true},
		{"an epoch that nobody has led", func(m *move) { m.epoch = 9 }, true},
	} {
		r := validJobRecord()
		i := slices.IndexFunc(r.moves, func(m move) bool { return m.run == "t0" && m.to == "ASSIGNED" })
		k := slices.IndexFunc(r.moves, func(m move) bool { return m.run == "t0" && m.from == "ASSIGNED" })
		claim := r.moves[k]
		claim.from, claim.before, claim.oldToken = r.moves[i].from, r.moves[i].before, r.moves[i].oldToken
		c.spoil(&claim)
		r.moves = slices.Replace(r.moves, i, k+1, claim.transitions()...)
		if v := judgeJobs(r); c.wrong != (len(v.violations) > 0) {
			t.Errorf("%s: %v", c.what, v.violations)
		}
	}
}
