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
	known bool // its workflows are registered
}

// orderPayload is what clients send, and what the participants of every contestant get.
const orderPayload = `{"order_id":"` + orderPlace + `","customer_id":"C-4711","amount":12900,"currency":"EUR",` +
	`"items":[{"sku":"S-1"}]}`

func (s *skaldContestant) name() string                  { return "Skald" }
func (s *skaldContestant) prepare(context.Context) error { return nil }
func (s *skaldContestant) servers() []*child             { return []*child{s.server} }

func (s *skaldContestant) start(ctx context.Context) error {
	var ready Millis
	if err := s.measureStart(ctx, &ready); err != nil || s.known {
		return err
	}
	for _, flow := range workflows(s.participantAddr) {
		if err := registerWorkflow(ctx, s.serverURL, flow); err != nil {
			return err
		}
	}
	s.known = true
	return nil
}

func (s *skaldContestant) request(l peerLevel) OrderRequest {
	flow := workflows(s.participantAddr)[0]
	if l.undone {
		flow = workflows(s.participantAddr)[1]
	}
	r := OrderRequest{
		URL:      s.serverURL + "/api/v1/sagas",
		Body:     `{"workflow_name":"` + flow.name + `","payload":` + orderPayload + `}`,
		WantCode: http.StatusCreated, Want: `"saga_id":"`,
	}
	if l.mode == Wait {
		r.URL += "?wait=" + waitFor.String()
		r.Want = `"status":"` + flow.wantStatus + `"`
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
		return 0, fmt.Errorf("count sagas that go on: %w", err)
	}
	return n, nil
}

func countEnded(ctx context.Context, pool *sql.DB, query string) (e ended, err error) {
	if err := pool.QueryRowContext(ctx, query).Scan(&e.completed, &e.compensated); err != nil {
		return ended{}, fmt.Errorf("count sagas that have ended: %w", err)
	}
	return e, nil
}
