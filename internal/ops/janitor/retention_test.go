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

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/ops/janitor"
	"github.com/skald-saga/skald/internal/ops/storage"
	"github.com/skald-saga/skald/internal/saga"
)

// archive records when it is called, and has a backlog.
type archive struct {
	begin   time.Time
	backlog int
	takes   time.Duration // per batch
	fails   func(nth int) error
	calls   []time.Duration
	asked   []saga.Expiry
}

func (a *archive) ArchiveExpired(ctx context.Context, e saga.Expiry, limit int) (int, error) {
	a.calls = append(a.calls, time.Since(a.begin))
	a.asked = append(a.asked, e)
	time.Sleep(a.takes)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if a.fails != nil {
		if err := a.fails(len(a.calls)); err != nil {
			return 0, err
		}
	}
	n := min(limit, a.backlog)
	a.backlog -= n
	return n, nil
}

// retain runs the loop for a while and returns its log and the number of rounds that succeeded.
func retain(t *testing.T, a *archive, d time.Duration, cfg janitor.RetentionConfig) (log string, rounds int) {
	t.Helper()
	var out bytes.Buffer
	a.begin = time.Now()
	cfg.Archive, cfg.Log = a, slog.New(slog.NewTextHandler(&out, nil))
	cfg.Done = func() { rounds++ }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { janitor.Retain(ctx, cfg); close(ended) }()
	time.Sleep(d)
	stop()
	synctest.Wait()
	time.Sleep(a.takes)
	synctest.Wait()
	select {
	case <-ended:
	default:
		t.Error("it goes on after its context has ended")
	}
	return out.String(), rounds
}

func TestExpiredSagasAreArchivedSoonAndThenAboutEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &archive{}
		keep := saga.Retention{Completed: time.Hour, Failed: 2 * time.Hour}
		log, rounds := retain(t, a, 10*time.Hour, janitor.RetentionConfig{Default: keep, Interval: time.Hour})
		if a.calls[0] > 6*time.Minute {
			t.Errorf("it begins after %v", a.calls[0])
		}
		for i := 1; i < len(a.calls); i++ {
			if gap := a.calls[i] - a.calls[i-1]; gap < 48*time.Minute || gap > 72*time.Minute {
				t.Errorf("round %d comes %v after the one before", i, gap)
			}
		}
		if len(a.calls) < 9 || rounds != len(a.calls) || log != "" {
			t.Errorf("%d rounds in ten hours, %d ended well, log %q", len(a.calls), rounds, log)
		}
		if diff := cmp.Diff(saga.Expiry{Default: keep}, a.asked[0]); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	})
}

func TestABacklogIsArchivedInBatchesWithPausesOfTheSameLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &archive{backlog: 25, takes: time.Second}
		log, rounds := retain(t, a, 10*time.Minute, janitor.RetentionConfig{Interval: time.Hour, Batch: 10})
		if a.backlog != 0 || len(a.calls) != 4 || rounds != 1 || !strings.Contains(log, "count=25") {
			t.Fatalf("%d calls, %d are left, log %q; want 10, 10, 5, 0", len(a.calls), a.backlog, log)
		}
		for i := 1; i < len(a.calls); i++ {
			if gap := a.calls[i] - a.calls[i-1]; gap != 2*time.Second {
				t.Errorf("batch %d begins %v after the one before, want 2s", i, gap)
			}
		}
	})
}

func TestAFailedRoundIsLoggedAndCompletedByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &archive{backlog: 15, fails: func(nth int) error {
			if nth == 2 {
				return errors.New("the connection is lost")
			}
			return nil
		}}
		log, rounds := retain(t, a, 2*time.Hour, janitor.RetentionConfig{Interval: time.Hour, Batch: 10})
		for _, part := range []string{"level=WARN", "archived=10", "count=5"} {
			if !strings.Contains(log, part) {
				t.Errorf("the log has no %s: %s", part, log)
			}
		}
		if a.backlog != 0 || rounds == 0 {
			t.Errorf("%d are left after %d good rounds, log %q", a.backlog, rounds, log)
		}
	})
}

// eventArchive has so many seals, and fails at some of them.
type eventArchive struct {
	trail.EventArchive
	seals, calls int
	keep         trail.EventRetention
	fails        error
}

func (a *eventArchive) ArchiveEvents(_ context.Context, keep trail.EventRetention) (archived, purged int64, err error) {
	a.calls++
	a.keep = keep
	if a.seals == 0 {
		return 0, 0, a.fails
	}
	a.seals--
	return 10, 1, a.fails
}

func TestAuditEventsAreArchivedUntilNoneAreLeft(t *testing.T) {
	keep := trail.EventRetention{Live: time.Hour, Archived: 2 * time.Hour}
	for _, tt := range []struct {
		name  string
		keep  trail.EventRetention
		fails error
		calls int
		log   string
	}{
		{"three seals", keep, nil, 4, "archived=30 purged=3"},
		{"one of them broken", keep, errors.New("seal 7"), 4, "seal 7"},
		{"kept for ever", trail.EventRetention{}, nil, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events := &eventArchive{seals: 3, fails: tt.fails}
				log, rounds := retain(t, &archive{}, 30*time.Minute,
					janitor.RetentionConfig{Interval: time.Hour, Events: events, EventRetention: tt.keep})
				if events.calls != tt.calls || events.keep != tt.keep || !strings.Contains(log, tt.log) {
					t.Errorf("%d calls for %v, want %d for %v; log %q", events.calls, events.keep, tt.calls, tt.keep, log)
				}
				if ended := rounds == 1; ended != (tt.fails == nil) {
					t.Errorf("%d rounds without an error", rounds)
				}
			})
		})
	}
}

func TestRetentionCanBeOffAndStopsWithoutLogging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &archive{backlog: 10}
		if log, _ := retain(t, a, time.Hour, janitor.RetentionConfig{}); len(a.calls) != 0 || log != "" {
			t.Errorf("with interval 0 it was asked %d times, log %q", len(a.calls), log)
		}
		a = &archive{backlog: 10, takes: time.Hour} // stopped in the middle of a batch
		if log, _ := retain(t, a, 10*time.Minute, janitor.RetentionConfig{Interval: time.Minute}); len(a.calls) != 1 ||
			log != "" {
			t.Errorf("stopped: it was asked %d times, log %q", len(a.calls), log)
		}
	})
}

func TestStorageIsMeasuredFromTheSecondCheckEveryFewMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		report := storage.Storage{Tables: []storage.Table{{Name: "saga_states", TotalBytes: 5}}}
		told := 0
		log := work(t, &store{}, 30*time.Minute, janitor.Config{
			Storage: func(context.Context) (storage.Storage, error) {
				if at = append(at, time.Since(begin)); len(at) == 2 {
					return storage.Storage{}, errors.New("the connection is lost")
				}
				return report, nil
			},
			Measured: func(s storage.Storage) {
				if told++; !cmp.Equal(s, report) {
					t.Errorf("told %+v", s)
				}
			},
		})
		if len(at) < 6 || len(at) > 8 || at[0] < 10*time.Second || at[0] > 20*time.Second {
			t.Errorf("measured at %v", at)
		}
		if told != len(at)-1 || strings.Count(log, "level=WARN") != 1 {
			t.Errorf("told %d times of %d, log %q", told, len(at), log)
		}
	})
}
