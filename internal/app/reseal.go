package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/idempotency/idempotencydb"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobdb"
	"github.com/skald-saga/skald/internal/jobrun/jobworker"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/saga/certificationdb"
	"github.com/skald-saga/skald/internal/saga/sagadb"
)

// resealing contains the store operations that the job system.reseal needs.
type resealing struct {
	db      *postgres.DB
	letters *dlqdb.Queue
	runs    *jobdb.Jobs
}

// resealed is the result of a run of system.reseal.
type resealed struct {
	Key      string                      `json:"key"`      // the key that now seals; "": none
	Resealed map[string]int64            `json:"resealed"` // number of rows by table
	Left     map[string]map[string]int64 `json:"left"`     // rows that still need another key, by key and table
	// StoredLogs counts the logs outside of the database that may need an older key.
	StoredLogs int64 `json:"stored_logs"`
	// Digested counts the dead letters to which a key digest was added.
	Digested int64 `json:"digested"`
}

// sealAgain is the command of system.reseal. A scheduled run does not read the tables while there
// is only one key.
func (s resealing) sealAgain(ctx context.Context, r *jobworker.Run) (json.RawMessage, error) {
	out := resealed{Key: s.db.Keys.Current(), Resealed: map[string]int64{}, Left: map[string]map[string]int64{}}
	var err error
	if out.Digested, err = s.letters.DigestKeys(ctx); err != nil {
		return nil, err
	}
	if out.Key == "" || r.Trigger == jobrun.ByTime && s.db.Keys.Count() == 1 {
		return answered(out, nil)
	}
	var from postgres.Resealing // progress of the previous attempt
	if r.Checkpoint != nil && json.Unmarshal(r.Checkpoint, &from) != nil {
		from = postgres.Resealing{}
	}
	tables := slices.Concat(sagadb.SealedTables(), dlqdb.SealedTables(), jobdb.SealedTables(),
		idempotencydb.SealedTables(), certificationdb.SealedTables())
	done, err := s.db.Reseal(ctx, tables, from, 0, func(at postgres.Resealing) {
		var moved int64
		for _, n := range at.Resealed {
			moved += n
		}
		message := fmt.Sprintf("pass %d: %s, rows read: %d; resealed in all: %d", at.Pass, at.Table, at.Rows, moved)
		if point, err := json.Marshal(at); err == nil {
			counters := map[string]float64{"pass": float64(at.Pass), "rows": float64(at.Rows), "resealed": float64(moved)}
			r.Report(jobrun.Progress{Message: message, Counters: counters}, point)
		}
	})
	if err != nil {
		return nil, err
	}
	out.Resealed, out.Left = done.Resealed, done.Left
	for key, tables := range out.Left {
		fmt.Fprintf(r.Stderr, "rows that still need the key %s: %v\n", key, tables)
	}
	out.StoredLogs, err = s.runs.LogsBeforeKey(ctx, out.Key)
	return answered(out, err)
}
