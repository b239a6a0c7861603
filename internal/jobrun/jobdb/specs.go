package jobdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/postgres"
)

// specCache caches versions of specs, which never change.
type specCache struct {
	sync.Mutex
	specs map[specKey]*jobrun.Spec
}

type specKey struct {
	definition uuid.UUID
	version    int
}

// maxSpecs is the number of cached specs at which the cache is emptied.
const maxSpecs = 10_000

const specOfRun = `SELECT v.spec
  FROM jobs.job_definition_versions v
 WHERE v.tenant_id = $1 AND v.definition_id = $2 AND v.spec_version = $3`

// Spec returns the spec that the definition of r had when r was created. The caller must not change
// it. The spec is empty if the definition no longer exists.
func (st *Jobs) Spec(ctx context.Context, r *jobrun.Run) (*jobrun.Spec, error) {
	return st.db.specOf(ctx, st.db.Read, r)
}

// specOf returns the spec that the definition of r had when r was created. The caller must not
// change it. q is used only if the spec is not cached. If the definition no longer exists, the spec
// is empty, which means no retry and no dead letter. If the spec is damaged, the run gets no retry,
// but a failure becomes a dead letter.
func (db *DB) specOf(ctx context.Context, q postgres.Queryer, r *jobrun.Run) (*jobrun.Spec, error) {
	key := specKey{r.DefinitionID, r.SpecVersion}
	db.specs.Lock()
	known := db.specs.specs[key]
	db.specs.Unlock()
	if known != nil {
		return known, nil
	}
	var doc []byte
	err := q.QueryRowContext(ctx, specOfRun, r.TenantID, r.DefinitionID, r.SpecVersion).Scan(&doc)
	if errors.Is(err, sql.ErrNoRows) {
		return new(jobrun.Spec), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the spec of a job: %w", err)
	}
	spec := new(jobrun.Spec)
	if json.Unmarshal(doc, spec) != nil {
		// The stored spec is damaged: the run ends as its worker reports and is not retried, and a
		// failure becomes a dead letter. The spec is not cached, because it may be repaired.
		return &jobrun.Spec{DeadLetter: new(true)}, nil
	}
	db.specs.Lock()
	defer db.specs.Unlock()
	if db.specs.specs == nil || len(db.specs.specs) >= maxSpecs {
		db.specs.specs = map[specKey]*jobrun.Spec{}
	}
	db.specs.specs[key] = spec
	return spec, nil
}
