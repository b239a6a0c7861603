package jobrun_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
)

func TestWhatARunWaitsFor(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	soon, before := now.Add(time.Minute), now.Add(-time.Minute)
	worker := func() jobrun.WorkerProcess {
		return jobrun.WorkerProcess{ID: uuid.New(), State: jobrun.WorkerActive, Queues: []string{"q"},
			Labels: []string{"gpu=yes"}, Commands: []string{"c"}, MaxRuns: 1}
	}
	for name, tt := range map[string]struct {
		change func(*jobrun.Situation)
		want   jobrun.Waiting
		says   string
	}{
		"its slot":         {func(s *jobrun.Situation) { s.Run.AvailableAt = soon }, jobrun.ForSlot, "due at 2026-01-01T12:01:00Z"},
		"its retry":        {func(s *jobrun.Situation) { s.Run.AvailableAt, s.Run.Trigger = soon, jobrun.ByRetry }, jobrun.ForBackoff, "retry"},
		"another worker":   {func(s *jobrun.Situation) { s.Run.AvailableAt, s.Run.State = soon, jobrun.Orphaned }, jobrun.ForBackoff, "It has no worker"},
		"a leader":         {func(s *jobrun.Situation) { s.Leader.Alive = false }, jobrun.ForLeader, "The scheduler has no leader"},
		"its admission":    {func(s *jobrun.Situation) { s.Run.AdmittedAt = nil }, jobrun.ForTurn, "has not admitted"},
		"a queue's worker": {func(s *jobrun.Situation) { s.Workers = nil }, jobrun.ForWorker, "queue"},
		"one that drains":  {func(s *jobrun.Situation) { s.Workers[0].State = jobrun.WorkerDraining }, jobrun.ForWorker, "queue"},
		"labels":           {func(s *jobrun.Situation) { s.Workers[0].Labels = nil }, jobrun.ForWorker, "labels"},
		"its command":      {func(s *jobrun.Situation) { s.Workers[0].Commands = []string{"d"} }, jobrun.ForWorker, "command"},
		"room":             {func(s *jobrun.Situation) { s.Workers[0].Running = 1 }, jobrun.ForWorker, "at capacity"},
		"who knows":        {func(s *jobrun.Situation) { s.Workers, s.Unknown = nil, true }, jobrun.ForTurn, "too many workers"},
		"its turn":         {func(s *jobrun.Situation) {}, jobrun.ForTurn, "workers that can run it: 1"},
		"confirmation": {func(s *jobrun.Situation) {
			s.Run.State, s.Run.Continuation, s.Run.ConfirmDeadlineAt = jobrun.Running, jobrun.Confirming, &soon
		}, jobrun.ForConfirmation, "silent"},
		"its end": {func(s *jobrun.Situation) {
			s.Run.State, s.Run.StartedAt, s.Run.TimeoutMS = jobrun.Running, &before, 120_000
		}, jobrun.ForEnd, "until 2026-01-01T12:01:00Z"},
		"nothing": {func(s *jobrun.Situation) { s.Run.State, s.Run.FinishedAt = jobrun.Skipped, &before }, jobrun.ForNothing,
			"It was skipped at 2026-01-01T11:59:00Z."},
		"nothing: another one ran": {func(s *jobrun.Situation) {
			s.Run.State, s.Run.FinishedAt = jobrun.Skipped, &before
			s.Decisions = []jobrun.HistoryEvent{{To: jobrun.Pending, Actor: "ada", Reason: "backfill"},
				{To: jobrun.Skipped, Reason: "because run 7 was still running"}}
		}, jobrun.ForNothing, "It was skipped at 2026-01-01T11:59:00Z, because run 7 was still running."},
		"nothing: its worker stopped it": {func(s *jobrun.Situation) {
			s.Run.State, s.Run.FinishedAt = jobrun.Canceled, &before
			s.Decisions = []jobrun.HistoryEvent{{Kind: jobrun.WasCancelAsk, Actor: "kim", Reason: "not needed"},
				{To: jobrun.Canceled, Reason: "not needed"}}
		}, jobrun.ForNothing, "It was canceled at 2026-01-01T11:59:00Z by kim: not needed."},
		"nothing: canceled before it began": {func(s *jobrun.Situation) {
			s.Run.State, s.Run.FinishedAt = jobrun.Canceled, &before
			s.Decisions = []jobrun.HistoryEvent{{To: jobrun.Canceled, Actor: "kim"}}
		}, jobrun.ForNothing, "It was canceled at 2026-01-01T11:59:00Z by kim."},
	} {
		s := jobrun.Situation{
			Run: jobrun.Run{ID: uuid.New(), State: jobrun.Pending, Queue: "q", RequiredLabels: []string{"gpu=yes"},
				CommandName: "c", AvailableAt: before, AdmittedAt: &before},
			Leader: jobrun.Leadership{Alive: true}, Now: now, Workers: []jobrun.WorkerProcess{worker()},
		}
		tt.change(&s)
		if x := jobrun.Explain(s); x.WaitsFor != tt.want || !strings.Contains(x.Summary, tt.says) {
			t.Errorf("%s: it waits for %s: %s", name, x.WaitsFor, x.Summary)
		}
	}
}
