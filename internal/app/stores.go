package app

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/access/accessdb"
	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/timeline"
	"github.com/skald-saga/skald/internal/audit/timelinedb"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/dlq/redrivedb"
	"github.com/skald-saga/skald/internal/erasure"
	"github.com/skald-saga/skald/internal/erasure/erasuredb"
	"github.com/skald-saga/skald/internal/event/eventdb"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/idempotency/claims"
	"github.com/skald-saga/skald/internal/idempotency/idempotencydb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/ops/janitor"
	"github.com/skald-saga/skald/internal/ops/overview"
	"github.com/skald-saga/skald/internal/ops/overviewdb"
	"github.com/skald-saga/skald/internal/ops/storage"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback"
	"github.com/skald-saga/skald/internal/saga/memstore"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/registrydb"
	"github.com/skald-saga/skald/internal/saga/sagadb"
	"github.com/skald-saga/skald/internal/saga/statistics"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// stores holds all stores, either on PostgreSQL or in memory; both kinds pass the same contract
// tests (internal/test/storetest, eventtest).
type stores struct {
	sagas        sagaStore
	workflows    workflow.Store
	trail        trailStore
	keys         access.Store
	sessions     access.Sessions
	answers      claims.Store
	hooks        hookStore
	participants participantStore
	publications trail.Publications
	eraser       erasure.Eraser    // nil: erasure is not supported
	deadLetters  *deadLetterStores // nil: there are no dead letters without PostgreSQL
	timeline     timeline.Store    // nil: there is none
	overview     overview.Store    // nil: the overview has only sagas
	jobStores    *jobStores        // nil: there are no job runs without PostgreSQL
	// secret returns 32 random bytes for a name, which stay the same for the lifetime of the store.
	secret  func(ctx context.Context, name string) ([]byte, error)
	storage func(ctx context.Context) (storage.Storage, error) // nil: there are no tables
	ping    func(ctx context.Context) error
	// condition checks the state of the database, and whether it accepts writes; nil: there is
	// none.
	condition func(ctx context.Context) (postgres.Condition, error)
}

// usable returns nil if the stores can be read and written.
func (s *stores) usable(ctx context.Context) error {
	if s.condition == nil {
		return s.ping(ctx)
	}
	_, err := s.condition(ctx)
	return err
}

type sagaStore interface {
	saga.Store
	saga.Ownership
	saga.Archive
	saga.Notes
	callback.Store
	statistics.Reports
	janitor.Store
}

type trailStore interface {
	trail.Trail
	trail.Chain
}

type participantStore interface {
	registry.Store
	registry.Gates
}

type hookStore interface {
	webhook.Store
	webhook.Log
	webhook.Queue
}

// openStores opens the stores of the configured database. lost is closed when the private database
// exits unexpectedly, and is nil without a private database. stop stops everything that was
// started.
func openStores(
	ctx context.Context,
	cfg *config.Config,
	from *logins,
	clock *postgres.Clock,
	version string,
	log *slog.Logger,
) (s stores, lost <-chan struct{}, stop func(), err error) {
	if cfg.Store == config.Memory {
		log.Warn(
			"ALL DATA IS IN MEMORY: when this process ends, all sagas are lost without being compensated; use this for trials only",
		)
		return memoryStores(clock.Now), nil, func() {}, nil
	}
	db, lost, stop, err := openDatabase(ctx, cfg, from, clock, log)
	if err != nil {
		return s, nil, nil, err
	}
	s, err = postgresStores(ctx, db, letterPolicy(cfg.DLQ), log)
	if err != nil {
		stop()
		return s, nil, nil, err
	}
	if st, ok := s.sagas.(*sagadb.Sagas); ok {
		st.Version = version[:min(len(version), 64)]
	}
	return s, lost, stop, nil
}

func postgresStores(ctx context.Context, db *postgres.DB, common dlq.Policy, log *slog.Logger) (stores, error) {
	if err := db.AdmitKeys(ctx); err != nil {
		return stores{}, err
	}
	events := sagadb.NewTrail(db)
	restored, err := events.AfterRestore(ctx)
	if err != nil {
		return stores{}, err
	}
	if restored {
		log.Warn("the database was restored from another cluster: the event feed continues after the restored events")
	}
	queue := dlqdb.NewQueue(db, common)
	letters := dlqdb.NewLetters(db, common).Telling(queue.Forget)
	tell := dlqdb.NewLetterUpdater(db, common.MaxRetries)
	jobs := jobdb.NewDB(db, jobrun.Chance{Jitter: loop.Chance, NewID: newID}, tell)
	sagas := sagadb.NewSagasWith(jobs)
	return stores{
		sagas: sagas, eraser: erasuredb.New(db), workflows: sagadb.NewWorkflows(db), trail: events,
		keys:         accessdb.NewKeys(db),
		sessions:     accessdb.NewSessions(db),
		answers:      idempotencydb.NewAnswers(db),
		participants: registrydb.New(db),
		hooks:        eventdb.NewWebhooks(db, tell), publications: eventdb.NewPublications(db),
		deadLetters: &deadLetterStores{
			letters:  letters,
			queue:    queue,
			redrives: redrivedb.NewRedrives(db, queue),
			actions:  auditdb.NewActions(db),
		},
		timeline:  timelinedb.NewTimelines(db),
		overview:  overviewdb.New(db, letters),
		jobStores: postgresJobs(jobs, sagas, queue),
		secret:    db.Secret, storage: sagas.Storage, ping: db.Ping, condition: conditionOf(db),
	}, nil
}

func memoryStores(now func() time.Time) stores {
	m := memstore.New(now)
	return stores{
		sagas: m.Sagas, workflows: m.Workflows, trail: m.Trail, keys: m.Keys, sessions: m.Sessions,
		answers: m.Answers, participants: m.Participants, hooks: m.Webhooks, publications: m.Publications,
		secret: func(context.Context, string) ([]byte, error) {
			key := make([]byte, 32)
			_, err := rand.Read(key)
			return key, err
		},
		ping: func(context.Context) error { return nil },
	}
}
