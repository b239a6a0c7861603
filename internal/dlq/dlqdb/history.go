package dlqdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// attemptRow is a row of dlq.dlq_attempts.
type attemptRow struct {
	*dlq.Attempt
	target []byte
	at     place
}

// attemptTable describes dlq.dlq_attempts without the columns copied from the letter.
var attemptTable = postgres.NewTable(
	postgres.UUID("message_id", func(r *attemptRow) *uuid.UUID { return &r.LetterID }).ReadOnly(),
	postgres.UUID("token", func(r *attemptRow) *uuid.UUID { return &r.Token }).ReadOnly(),
	postgres.Int("number", func(r *attemptRow) *int { return &r.Number }),
	postgres.Int("revision", func(r *attemptRow) *int { return &r.Revision }),
	postgres.JSON("target", func(r *attemptRow) *[]byte { return &r.target }),
	postgres.Text("outcome", func(r *attemptRow) *dlq.AttemptOutcome { return &r.Outcome }),
	postgres.Text("error", func(r *attemptRow) *string { return &r.Error }),
	postgres.Int("status_code", func(r *attemptRow) *int { return &r.StatusCode }),
	postgres.TextOrNil("written_topic", func(r *attemptRow) **string { return &r.at.topic }),
	postgres.IntOrNil("written_partition", func(r *attemptRow) **int32 { return &r.at.partition }),
	postgres.IntOrNil("written_offset", func(r *attemptRow) **int64 { return &r.at.offset }),
	postgres.UUIDOrZero("redrive_id", func(r *attemptRow) *uuid.UUID { return &r.RedriveID }),
	postgres.Text("actor", func(r *attemptRow) *string { return &r.Actor }),
	postgres.Text("actor_name", func(r *attemptRow) *string { return &r.ActorName }),
	postgres.Time("started_at", func(r *attemptRow) *time.Time { return &r.StartedAt }),
	postgres.Time("ended_at", func(r *attemptRow) *time.Time { return &r.EndedAt }),
)

// attemptOf returns the stored form of an attempt.
func attemptOf(a *dlq.Attempt) (*attemptRow, error) {
	target, err := json.Marshal(a.Target)
	if err != nil {
		return nil, fmt.Errorf("encode target: %w", err)
	}
	return &attemptRow{a, target, placeOf(a.Written)}, nil
}

func scanAttempt(row postgres.Scanner) (dlq.Attempt, error) {
	var a dlq.Attempt
	r := attemptRow{Attempt: &a}
	if err := attemptTable.Scan(row, &r); err != nil {
		return a, err
	}
	a.Written = r.at.position()
	return a, ReadTarget(r.target, &a.Target)
}

var letterAttempts = postgres.OfTenant(`SELECT `+attemptTable.Selected("a")+`
  FROM dlq.dlq_attempts a
 WHERE a.tenant_id = tenant.id AND a.message_id = $2`, `ORDER BY number`)

// Attempts implements dlq.Letters.
func (st *Letters) Attempts(ctx context.Context, tenant, id uuid.UUID) ([]dlq.Attempt, error) {
	var out []dlq.Attempt
	err := st.db.ReadTenant(ctx, tenant, letterAttempts, func(rows *sql.Rows) error {
		a, err := scanAttempt(rows)
		out = append(out, a)
		return err
	}, id)
	return out, postgres.Wrap("read attempts", err)
}

// revisionRow is a row of dlq.dlq_revisions with its content sealed.
type revisionRow struct {
	dlq.Revision
	tenant                       uuid.UUID
	key, headers, payload, patch []byte
}

// revisionTable describes dlq.dlq_revisions.
var revisionTable = postgres.NewTable(
	postgres.UUID("message_id", func(r *revisionRow) *uuid.UUID { return &r.LetterID }),
	postgres.UUID("tenant_id", func(r *revisionRow) *uuid.UUID { return &r.tenant }).WriteOnly(),
	postgres.Int("number", func(r *revisionRow) *int { return &r.Number }),
	postgres.Bytes("message_key", func(r *revisionRow) *[]byte { return &r.key }),
	postgres.Bytes("headers", func(r *revisionRow) *[]byte { return &r.headers }),
	postgres.Bytes("payload_raw", func(r *revisionRow) *[]byte { return &r.payload }),
	postgres.JSON("patch", func(r *revisionRow) *[]byte { return &r.patch }),
	postgres.Text("author", func(r *revisionRow) *string { return &r.Author }),
	postgres.Text("author_name", func(r *revisionRow) *string { return &r.AuthorName }),
	postgres.Text("reason", func(r *revisionRow) *string { return &r.Reason }),
	postgres.Time("created_at", func(r *revisionRow) *time.Time { return &r.CreatedAt }),
)

var revisionColumns = revisionTable.Selected("r")

var fieldPatch = envelope.Field{Name: "dlq.patch"}

// scanRevision reads one row of revisionColumns using the letter's sealer.
func scanRevision(row postgres.Scanner, sealer *envelope.Sealer) (dlq.Revision, error) {
	r, err := revisionTable.One(row)
	if err != nil {
		return r.Revision, err
	}
	if r.Content, err = openContent(sealer, revisionFields(r.Number), r.key, r.headers, r.payload); err != nil {
		return r.Revision, err
	}
	r.Patch, err = postgres.Unseal(sealer, revisionField(fieldPatch, r.Number), r.patch)
	return r.Revision, err
}

var letterRevisions = postgres.OfTenant(`SELECT `+revisionColumns+`
  FROM dlq.dlq_revisions r
 WHERE r.tenant_id = tenant.id AND r.message_id = $2`, `ORDER BY number`)

// Revisions implements dlq.Letters.
func (st *Letters) Revisions(ctx context.Context, tenant, id uuid.UUID) ([]dlq.Revision, error) {
	var out []dlq.Revision
	sealer := st.db.Keys.SealerFor(tenant, id)
	err := st.db.ReadTenant(ctx, tenant, letterRevisions, func(rows *sql.Rows) error {
		r, err := scanRevision(rows, &sealer)
		out = append(out, r)
		return err
	}, id)
	return out, postgres.Wrap("read revisions", err)
}

// maxLineage is the maximum number of letters that Lineage returns.
const maxLineage = 200

// lineage selects all letters of a root, live or archived: the first letter has the root's id, and
// the others have come back.
var lineage = postgres.OfTenant(`
SELECT * FROM (
	SELECT `+LetterColumns+`, NULL::timestamptz AS archived_at, NULL::text AS archive_reason
	  FROM dlq.dlq_messages m WHERE m.tenant_id = tenant.id AND m.id = $2
	UNION ALL
	SELECT `+LetterColumns+`, NULL, NULL
	  FROM dlq.dlq_messages m WHERE m.tenant_id = tenant.id AND m.root_id = $2 AND m.generation > 0 AND m.id <> $2
	UNION ALL
	SELECT `+LetterColumns+`, m.archived_at, m.archive_reason
	  FROM dlq.dlq_messages_archive m WHERE m.tenant_id = tenant.id AND m.root_id = $2
	 ORDER BY created_at, id LIMIT `+fmt.Sprint(maxLineage)+`) AS all_of_them`, `ORDER BY created_at, id`)

// Lineage implements dlq.Letters. Fault: NotFound.
func (st *Letters) Lineage(ctx context.Context, tenant, id uuid.UUID) ([]dlq.Letter, error) {
	l, err := st.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	var out []dlq.Letter
	err = st.db.ReadTenant(ctx, tenant, lineage, func(rows *sql.Rows) error {
		l, err := scanAnyLetter(st.db, rows)
		out = append(out, l)
		return shown(err)
	}, l.RootID)
	return out, postgres.Wrap("read lineage", err)
}
