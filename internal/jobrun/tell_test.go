package jobrun

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// This test checks the texts that people read about a run, for everything that it can wait for
// without a worker.
func TestWhatARunWithoutAWorkerWaitsFor(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	later, holder := now.Add(time.Minute), Run{ID: uuid.New(), State: Running}
	worker := func(change func(*WorkerProcess)) WorkerProcess {
		w := WorkerProcess{State: WorkerActive, Queues: []string{"q"}, MaxRuns: 2, Running: 1, Labels: []string{"gpu"},
			Commands: []string{"build"}}
		change(&w)
		return w
	}
	same := func(*WorkerProcess) {}
	for name, tt := range map[string]struct {
		change func(*Situation)
		want   Waiting
		says   string
	}{
		"its saga is suspended": {func(s *Situation) { s.SagaSuspended, s.Run.SagaID = true, holder.ID }, ForTurn, "Saga " + holder.ID.String() + " is suspended"},
		"lost, and not due again": {func(s *Situation) {
			s.Run.State, s.Run.AvailableAt, s.Run.LossesUsed, s.Run.MaxLosses = Orphaned, later, 1, 3
		}, ForBackoff, "(1 of 3 losses used up)"},
		"a retry that is not due":     {func(s *Situation) { s.Run.Trigger, s.Run.AvailableAt, s.Run.RetryNumber = ByRetry, later, 2 }, ForBackoff, "It is retry 2"},
		"not due":                     {func(s *Situation) { s.Run.AvailableAt = later }, ForSlot, "It is due at"},
		"due at this moment":          {func(s *Situation) { s.Run.AvailableAt = now }, ForTurn, "workers that can run it: 1"},
		"another run has its key":     {func(s *Situation) { s.Holder = &holder }, ForKey, "Run " + holder.ID.String() + " is RUNNING"},
		"it has its key itself":       {func(s *Situation) { s.Holder = &s.Run }, ForTurn, "workers that can run it: 1"},
		"nobody leads":                {func(s *Situation) { s.Leader.Alive = false }, ForLeader, "no leader"},
		"not admitted":                {func(s *Situation) { s.Run.AdmittedAt = nil }, ForTurn, "(epoch 7) has not admitted it"},
		"no workers":                  {func(s *Situation) { s.Workers = nil }, ForWorker, `No active worker takes runs from queue "q"`},
		"more workers than are known": {func(s *Situation) { s.Workers, s.Unknown = nil, true }, ForTurn, "too many workers"},
		"one of the known ones can":   {func(s *Situation) { s.Unknown = true }, ForTurn, "workers that can run it: 1"},
		"workers that are drained":    {func(s *Situation) { s.Workers[0].State = WorkerDraining }, ForWorker, "No active worker"},
		"workers of other queues":     {func(s *Situation) { s.Workers[0].Queues = []string{"x"} }, ForWorker, "No active worker"},
		"no worker with its labels":   {func(s *Situation) { s.Run.RequiredLabels = []string{"gpu", "arm"} }, ForWorker, "None of the active workers (1)"},
		"no worker with its command":  {func(s *Situation) { s.Run.CommandName = "test" }, ForWorker, `runs the command "test"`},
		"no worker has room":          {func(s *Situation) { s.Workers[0].Running = 2 }, ForWorker, "Every worker that can run it is at capacity (1 in total)"},
		"two of three have room": {func(s *Situation) {
			s.Workers = append(s.Workers, worker(same), worker(func(w *WorkerProcess) { w.Running = 9 }))
		}, ForTurn, "workers that can run it: 2"},
	} {
		s := Situation{Now: now, Leader: Leadership{Alive: true, Term: Term{Epoch: 7}},
			Workers: []WorkerProcess{worker(same)},
			Run: Run{ID: uuid.New(), State: Pending, Queue: "q", CommandName: "build", RequiredLabels: []string{"gpu"},
				AdmittedAt: &now, CreatedAt: now}}
		tt.change(&s)
		x := Explain(s)
		if x.WaitsFor != tt.want || !strings.Contains(x.Summary, tt.says) {
			t.Errorf("%s: it waits for %s: %q; want %s, %q", name, x.WaitsFor, x.Summary, tt.want, tt.says)
		}
		if (x.Blocking == holder.ID) != (tt.want == ForKey) || (x.Until != nil) != s.Run.AvailableAt.After(now) {
			t.Errorf("%s: until %v, blocked by %s", name, x.Until, x.Blocking)
		}
	}
}

func TestWhereARunComesFrom(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	for want, r := range map[string]Run{
		"by the schedule":                          {Trigger: ByTime},
		"by event " + id.String():                  {Trigger: ByEvent, EventID: id},
		"retry 2 of run " + id.String():            {Trigger: ByRetry, RetryNumber: 2, RetryOfRunID: id},
		"by backfill " + id.String():               {Trigger: ByBackfill, BackfillID: id},
		"by step 3 of saga " + id.String():         {Trigger: BySaga, SagaStep: 3, SagaID: id},
		"by a retry of dead letter " + id.String(): {Trigger: ByLetter, LetterID: id},
		"manually":                           {Trigger: ByHand},
		"manual rerun of run " + id.String(): {Trigger: ByHand, RetryOfRunID: id},
	} {
		if got := r.origin(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTheLastAttemptIsToldOnce(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		r      Run
		stored []int
		want   []int
	}{
		"never assigned":           {Run{}, nil, nil},
		"the first":                {Run{Attempt: 1, AssignedAt: &at}, nil, []int{1}},
		"the second, not stored":   {Run{Attempt: 2, AssignedAt: &at}, []int{1}, []int{1, 2}},
		"the second, stored":       {Run{Attempt: 2, AssignedAt: &at}, []int{1, 2}, []int{1, 2}},
		"taken from its worker":    {Run{Attempt: 2}, []int{1}, []int{1}},
		"a later one is stored":    {Run{Attempt: 2, AssignedAt: &at}, []int{1, 2, 3}, []int{1, 2, 3}},
		"ended, with what it gave": {Run{Attempt: 1, AssignedAt: &at, State: Canceled, FinishedAt: &at}, nil, []int{1}},
	} {
		var stored []Attempt
		for _, n := range tt.stored {
			stored = append(stored, Attempt{Number: n})
		}
		var got []int
		all := tt.r.WithPresent(stored)
		for _, a := range all {
			got = append(got, a.Number)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if tt.r.State == Canceled && (all[0].Outcome != "CANCELED" || all[0].EndedAt != &at) {
			t.Errorf("%s: %+v", name, all[0])
		}
	}
}

// A log chunk survives its conversion to a line and back, whatever bytes it contains.
func TestAChunkOfALogIsTheSameAfterItWasALine(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 13, 0, 0, 1000, time.FixedZone("", 3600))
	for body, text := range map[string]bool{"": true, "a\n": true, "é\x00": true, "\xff": false, "a\xc3": false} {
		c := LogChunk{LogPosition: LogPosition{Attempt: 2, Seq: 3}, At: at, Stream: "stdout", Body: []byte(body)}
		l := LineOf(&c)
		if (l.Chunk != nil) != text || (l.Bytes != nil) == text || l.At.Location() != time.UTC {
			t.Errorf("%q is the line %+v", body, l)
		}
		back := l.Content()
		if c.At = at.UTC(); !reflect.DeepEqual(c, back) {
			t.Errorf("%q came back as %+v", body, back)
		}
	}
}
