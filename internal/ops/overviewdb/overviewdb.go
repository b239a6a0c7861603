// Package overviewdb reads overviews, search results and states from PostgreSQL. Every statement
// uses an index to read a bounded number of rows.
//
// Files, each on top of those before it: causes, figures, minutes, search, watch, places, overviewdb.
package overviewdb

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/errgroup"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/ops/overview"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga"
)

// Store is overview.Store on PostgreSQL.
type Store struct {
	db     *postgres.DB
	topics Topics
}

// Topics finds the topics that exceed their alerts.
type Topics interface {
	Alerting(ctx context.Context, tenant uuid.UUID, topics int, atLeast int64) ([]dlq.Alerting, error)
}

// New returns the store of db.
func New(db *postgres.DB, topics Topics) *Store { return &Store{db, topics} }

// Missing implements overview.Store.
func (*Store) Missing() []overview.Part { return nil }

// Overview implements overview.Store. It reads the parts concurrently; otherwise the first visitor
// after a pause would wait twice as long.
func (st *Store) Overview(ctx context.Context, tenant uuid.UUID) (o overview.Overview, err error) {
	var definitions int
	side, ctx := errgroup.WithContext(ctx)
	inTenant := func(what string, f func(*sqlx.Tx) error) {
		side.Go(func() error { return postgres.Wrap("read "+what, st.db.InTenant(ctx, tenant, f)) })
	}
	inTenant("what needs a person", func(tx *sqlx.Tx) error {
		for _, s := range []*postgres.Statement{sagaCauses, participantCauses, groupCauses, redriveCauses,
			runCauses, queueCauses, workerCauses, webhookCauses} {
			found, err := causeTable.All(tx.QueryContext(ctx, s.Text, s.Args(postgres.Values{tenant})...))
			if err != nil {
				return err
			}
			o.Causes = append(o.Causes, found...)
		}
		return nil
	})
	inTenant("the figures of the overview", func(tx *sqlx.Tx) (err error) {
		if definitions, err = readFigures(ctx, tx, tenant, &o); err != nil {
			return err
		}
		if o.Traffic, err = readTraffic(ctx, tx, tenant); err != nil {
			return err
		}
		if o.Next, err = slotTable.All(tx.QueryContext(ctx, nextSlots, tenant)); err != nil {
			return err
		}
		o.Minutes, err = readMinutes(ctx, tx, tenant, o.At)
		return err
	})
	side.Go(func() error { return postgres.Wrap("read the nodes", st.deployment(ctx, &o)) })
	side.Go(func() error {
		found, err := st.topics.Alerting(ctx, tenant, topicsLooked, overview.Most)
		for _, t := range found {
			o.Topics = append(o.Topics, overview.Topic{Topic: t.Topic, Alerts: t.Alerts,
				Open: overview.CountOf(int(t.Open)), Oldest: t.Oldest})
		}
		return err
	})
	if err := side.Wait(); err != nil {
		return overview.Overview{}, err
	}
	for i := range o.Causes {
		c := &o.Causes[i]
		if c.Kind == overview.SagasAttention {
			c.Attend()
		}
		c.Counted(c.Count.N)
	}
	o.Merge()
	o.CountSagas(0)
	o.Attention.Capped = o.Attention.Capped || o.Attention.N == overview.Most
	o.Judge(definitions > 0)
	o.Sort()
	return o, nil
}

// topicsLooked is the number of topics that are checked for alerts.
const topicsLooked = 100

// deployment reads the figures that all tenants share.
func (st *Store) deployment(ctx context.Context, o *overview.Overview) error {
	nodes, err := nodeTable.All(st.db.QueryRead(ctx, aliveNodes))
	if err != nil {
		return err
	}
	o.Nodes = nodes
	leaders, err := leaderTable.All(st.db.QueryRead(ctx, presentLeader))
	if err == nil && len(leaders) > 0 {
		o.Leader = &leaders[0]
	}
	return err
}

// stateName returns the name of a stored state number.
func stateName(n int) (string, error) {
	if n < 0 || n >= len(saga.States) {
		return "", fmt.Errorf("stored saga: state %d", n)
	}
	return saga.State(n).String(), nil
}

func each(rows *sql.Rows, err error, f func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	return postgres.EachRow(rows, func() error { return f(rows) })
}
