package janitor_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/ops/janitor"
	"github.com/skald-saga/skald/internal/saga"
)

// store records when it is called.
type store struct {
	begin    time.Time
	stuck    int
	countErr func(nth int) error
	keysErr  func(nth int) error
	counted  []time.Duration
	expired  []time.Duration
	rolled   []time.Duration
	rollErr  func(nth int) error
	keep     time.Duration
	hang     bool // until its context ends
	stalled  []saga.Stalled
	unread   bool // the first page of them is empty
	asked    []any
	searches int
	search   time.Duration // how long one takes
}

func (s *store) Neglected(ctx context.Context, q saga.NeglectedQuery) (page []saga.Stalled, next saga.Ref, err error) {
	s.asked = []any{q.Idle, q.Failures, q.Limit > 0}
	s.searches++
	select {
	case <-time.After(s.search):
	case <-ctx.Done(): // as in a database query
		return nil, saga.Ref{}, ctx.Err()
	}
	if s.unread && q.After == (saga.Ref{}) {
		return nil, saga.Ref{ID: uuid.UUID{1}}, nil // a page of sagas that cannot be read
	}
	return s.stalled, saga.Ref{}, nil
}

func (s *store) Stuck(ctx context.Context) (int, map[saga.State]int, error) {
	s.counted = append(s.counted, time.Since(s.begin))
	if s.hang {
		<-ctx.Done()
		return 0, nil, ctx.Err()
	}
	if s.countErr != nil {
		if err := s.countErr(len(s.counted)); err != nil {
			return 0, nil, err
		}
	}
	return s.stuck, map[saga.State]int{saga.Running: 3}, nil
}

func (s *store) ExpireKeys(ctx context.Context, keep time.Duration) (int64, error) {
	s.expired = append(s.expired, time.Since(s.begin))
	s.keep = keep
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if s.keysErr != nil {
		return 0, s.keysErr(len(s.expired))
	}
	return 7, nil
}

func (s *store) RollUp(ctx context.Context) error {
	s.rolled = append(s.rolled, time.Since(s.begin))
	if s.rollErr != nil {
		return s.rollErr(len(s.rolled))
	}
	return ctx.Err()
}

// work runs the janitor for a while and returns what it logged.
func work(t *testing.T, s *store, d time.Duration, cfg janitor.Config) string {
	t.Helper()
	var log bytes.Buffer
	s.begin = time.Now()
	cfg.Store = s
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil)) // warnings and what is news
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { janitor.Run(ctx, cfg); close(ended) }()
	time.Sleep(d)
	stop()
	synctest.Wait()
	select {
	case <-ended:
	default:
		t.Error("it goes on after its context has ended")
	}
	return log.String()
}

func TestJanitorCountsAtOnceAndThenAboutEveryFifteenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		told := 0
		log := work(t, s, 10*time.Minute, janitor.Config{Counted: func(stuck int, live map[saga.State]int) {
			if told++; stuck != 0 || !cmp.Equal(live, map[saga.State]int{saga.Running: 3}) {
				t.Errorf("told %d stuck, live %v", stuck, live)
			}
		}})
		if s.counted[0] != 0 {
			t.Errorf("it first counts after %v", s.counted[0])
		}
		for i := 1; i < len(s.counted); i++ {
			if gap := s.counted[i] - s.counted[i-1]; gap < 12*time.Second || gap > 18*time.Second {
				t.Errorf("check %d comes %v after the one before", i, gap)
			}
		}
		if n := len(s.counted); n < 33 || told != n {
			t.Errorf("%d checks in ten minutes, told %d times", n, told)
		}
		if log != "" {
			t.Errorf("all is well, and it logs %s", log)
		}
	})
}

func TestStuckSagasAreAnErrorInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := work(t, &store{stuck: 2}, time.Second, janitor.Config{})
		if !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "count=2") || strings.Count(log, "\n") != 1 {
			t.Errorf("it logs %q", log)
		}
	})
}

func TestFailedCountIsTriedAgainAtTheNextCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{countErr: func(nth int) error {
			if nth == 1 {
				return errors.New("the connection is lost")
			}
			return nil
		}}
		told := 0
		log := work(
			t,
			s,
			time.Minute,
			janitor.Config{Check: 10 * time.Second, Counted: func(int, map[saga.State]int) { told++ }},
		)
		if len(s.counted) < 5 || told != len(s.counted)-1 {
			t.Errorf("%d checks, told %d times; want all but the failed one", len(s.counted), told)
		}
		if !strings.Contains(log, "level=WARN") || strings.Count(log, "\n") != 1 {
			t.Errorf("it logs %q", log)
		}
	})
}

func TestStatisticsAreRolledUpAtEveryCheckButTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{rollErr: func(nth int) error {
			if nth == 2 {
				return errors.New("the connection is lost")
			}
			return nil
		}}
		log := work(t, s, time.Minute, janitor.Config{Check: 10 * time.Second})
		if diff := cmp.Diff(s.counted[1:], s.rolled); diff != "" || len(s.rolled) < 5 {
			t.Errorf("rolled up (-checked +rolled up):\n%s", diff)
		}
		if !strings.Contains(log, "cannot roll up the statistics") || strings.Count(log, "\n") != 1 {
			t.Errorf("it logs %q", log)
		}
	})
}

func TestKeysAreExpiredAtTheSecondCheckAndThenHourly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		work(t, s, 5*time.Hour+30*time.Minute, janitor.Config{})
		if len(s.expired) != 6 || s.expired[0] < 10*time.Second || s.expired[0] > 20*time.Second || s.keep != 48*time.Hour {
			t.Errorf("expired at %v, those older than %v; want six times, 48h", s.expired, s.keep)
		}
		for i := 1; i < len(s.expired); i++ {
			if gap := s.expired[i] - s.expired[i-1]; gap < time.Hour || gap > time.Hour+18*time.Second {
				t.Errorf("expired %v after the time before", gap)
			}
		}
	})
}

func TestFailedExpiryIsTriedAgainAtTheNextCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{keysErr: func(nth int) error {
			if nth <= 2 {
				return errors.New("the connection is lost")
			}
			return nil
		}}
		log := work(t, s, 30*time.Minute, janitor.Config{Check: 10 * time.Second, KeepKey: time.Hour})
		if len(s.expired) != 3 || s.expired[2] > 40*time.Second || s.keep != time.Hour {
			t.Errorf("tried at %v with %v; want three tries, ten seconds apart", s.expired, s.keep)
		}
		if strings.Count(log, "level=WARN") != 2 {
			t.Errorf("it logs %q", log)
		}
	})
}

func TestJanitorStopsDuringACheckWithoutLogging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if log := work(t, &store{hang: true}, time.Second, janitor.Config{}); log != "" {
			t.Errorf("a stop is not a failure, and it logs %q", log)
		}
	})
}

func TestJanitorRaisesAttentionForWhatMakesNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := "no_answer"
		head := func(n byte) saga.Saga {
			return saga.Saga{ID: uuid.UUID{n}, State: saga.Running, Version: 4, LeaseEpoch: 2}
		}
		ended := head(3)
		ended.State = saga.Completed // it has moved on since it was found
		s := &store{
			unread: true,
			stalled: []saga.Stalled{
				{Saga: head(1), Reason: reason},
				{Saga: head(2), Reason: reason},
				{Saga: ended, Reason: reason},
			},
		}
		var committed []saga.Change
		raised := 0
		log := work(t, s, 5*time.Second, janitor.Config{
			Now: time.Now, Raised: func(why string) {
				if raised++; why != reason {
					t.Errorf("raised for %q", why)
				}
			},
			Commit: func(_ context.Context, c saga.Change) error {
				if c.After.ID == (uuid.UUID{2}) {
					return c.Stale() // another writer changed it
				}
				committed = append(committed, c)
				return nil
			},
		})
		if diff := cmp.Diff([]any{15 * time.Minute, 20, true}, s.asked); diff != "" {
			t.Errorf("asked for (-want +got):\n%s", diff)
		}
		if len(committed) != 1 || raised != 1 {
			t.Fatalf("%d committed, %d raised; want the first saga alone", len(committed), raised)
		}
		c := committed[0]
		if want := (saga.Precondition{Version: 4, Epoch: 2}); c.Before != want || c.After.Version != 5 || len(c.Audit) != 1 {
			t.Errorf("committed %+v", c)
		}
		if !c.After.NeedsAttention || *c.After.AttentionReason != reason {
			t.Errorf("committed %+v; want attention for %s", c.After.Saga, reason)
		}
		if !strings.Contains(log, "a saga makes no progress") || strings.Contains(log, "cannot raise") {
			t.Errorf("logged %s", log)
		}
	})
}

// TestALongSearchForStalledSagasIsRare checks that a slow search for stalled sagas runs less often,
// because it takes seconds with a million unfinished sagas. The counts are cheap and keep their
// interval.
func TestALongSearchForStalledSagasIsRare(t *testing.T) {
	for search, most := range map[time.Duration]int{0: 300, 100 * time.Millisecond: 300, 4 * time.Second: 45} {
		synctest.Test(t, func(t *testing.T) {
			s := &store{search: search}
			work(t, s, time.Hour, janitor.Config{
				Commit: func(context.Context, saga.Change) error { return nil }, Now: time.Now,
			})
			if s.searches > most || s.searches < most*7/10 || len(s.counted) < 180 {
				t.Errorf("searches of %s: %d in an hour, want about %d; counted %d times", search, s.searches, most, len(s.counted))
			}
		})
	}
}
