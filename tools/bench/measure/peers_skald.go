package measure

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
)

// skaldContestant is Skald itself.
type skaldContestant struct {
	*run
	ahead bool // no step waits for the disk (checkpoint: false)
	known bool // its workflows are registered
}

// The names of the contestants that peers are compared with.
const (
	skaldName = "Skald"
	aheadName = "Skald, checkpoint: false"
)

// skalds are the contestants that peers are compared with, in order.
var skalds = []string{skaldName, aheadName}

func (s *skaldContestant) name() string {
	if s.ahead {
		return aheadName
	}
	return skaldName
}

func (s *skaldContestant) prepare(context.Context) error { return nil }
func (s *skaldContestant) servers() []*child             { return []*child{s.server} }

func (s *skaldContestant) start(ctx context.Context) error {
	var ready Millis
	if err := s.measureStart(ctx, &ready); err != nil || s.known {
		return err
	}
	for _, l := range peerLevels {
		if err := registerWorkflow(ctx, s.serverURL, s.flow(l)); err != nil {
			return err
		}
	}
	s.known = true
	return nil
}

// flow is the workflow of a level.
func (s *skaldContestant) flow(l peerLevel) workflow {
	flow := workflow{name: "bench-" + l.key}
	if s.ahead {
		flow.name += "-ahead"
	}
	flow.definition = define(s.participantAddr, flow.name, l.orderSteps())
	if s.ahead {
		flow.goAhead()
	}
	return flow
}

func (s *skaldContestant) request(l peerLevel) OrderRequest {
	r := OrderRequest{
		URL:  s.serverURL + "/api/v1/sagas",
		Body: string(sagaRequest(s.flow(l).name, orderPlace, l.payload)),
		Want: []OrderAnswer{{http.StatusCreated, `"saga_id":"`}},
	}
	if l.mode == Wait {
		r.URL += "?wait=" + waitFor.String()
		r.Want = l.answers(
			OrderAnswer{http.StatusCreated, `"status":"COMPLETED"`}, OrderAnswer{http.StatusCreated, `"status":"FAILED"`})
	}
	return r
}

func (s *skaldContestant) running(ctx context.Context) (n int, err error) {
	return countSagas(ctx, s.db.pool, `SELECT count(*) FROM saga.saga_states WHERE completed_at IS NULL`)
}

func (s *skaldContestant) ended(ctx context.Context) (ended, error) {
	return countEnded(ctx, s.db.pool, fmt.Sprintf(
		`SELECT count(*) FILTER (WHERE state = %d), count(*) FILTER (WHERE state = %d) FROM saga.saga_states`,
		stateCompleted, stateCompensated))
}

func (s *skaldContestant) stop() error { return s.stopChildren() }

func countSagas(ctx context.Context, pool *sql.DB, query string) (n int, err error) {
	if err := pool.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("count unfinished sagas: %w", err)
	}
	return n, nil
}

func countEnded(ctx context.Context, pool *sql.DB, query string) (e ended, err error) {
	if err := pool.QueryRowContext(ctx, query).Scan(&e.completed, &e.compensated); err != nil {
		return ended{}, fmt.Errorf("count ended sagas: %w", err)
	}
	return e, nil
}
