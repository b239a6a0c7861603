package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// listedRow is a row as lists return it, with the tags that sqlx reads.
type listedRow struct {
	ID        uuid.UUID  `db:"id"`
	TenantID  uuid.UUID  `db:"tenant_id"`
	Name      string     `db:"name"`
	State     string     `db:"state"`
	Note      *string    `db:"note"`
	Version   int64      `db:"version"`
	Attempts  int        `db:"attempts"`
	Held      bool       `db:"held"`
	CreatedAt time.Time  `db:"created_at"`
	UpdatedAt time.Time  `db:"updated_at"`
	EndedAt   *time.Time `db:"ended_at"`
	Labels    []byte     `db:"labels"`
}

var listedTable = postgres.NewTable(
	postgres.UUID("id", func(r *listedRow) *uuid.UUID { return &r.ID }),
	postgres.UUID("tenant_id", func(r *listedRow) *uuid.UUID { return &r.TenantID }),
	postgres.Text("name", func(r *listedRow) *string { return &r.Name }),
	postgres.Text("state", func(r *listedRow) *string { return &r.State }),
	postgres.TextOrNil("note", func(r *listedRow) **string { return &r.Note }),
	postgres.Int("version", func(r *listedRow) *int64 { return &r.Version }),
	postgres.Int("attempts", func(r *listedRow) *int { return &r.Attempts }),
	postgres.Bool("held", func(r *listedRow) *bool { return &r.Held }),
	postgres.Time("created_at", func(r *listedRow) *time.Time { return &r.CreatedAt }),
	postgres.Time("updated_at", func(r *listedRow) *time.Time { return &r.UpdatedAt }),
	postgres.TimeOrNil("ended_at", func(r *listedRow) **time.Time { return &r.EndedAt }),
	postgres.JSON("labels", func(r *listedRow) *[]byte { return &r.Labels }),
)

// BenchmarkReadingARow compares a table with sqlx's StructScan (decision 0125).
func BenchmarkReadingARow(b *testing.B) {
	db, err := postgres.Open(b.Context(), postgres.Config{DSN: testdb.DSN(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(db.Close)
	query := `
SELECT ` + listedTable.Selected("r") + `
  FROM (SELECT gen_random_uuid() AS id, gen_random_uuid() AS tenant_id, 'order' AS name, 'RUNNING' AS state,
               NULL::text AS note, n::bigint AS version, 3 AS attempts, false AS held, now() AS created_at, now() AS updated_at,
               now() AS ended_at, '{"a": 1}'::jsonb AS labels
          FROM generate_series(1, $1) AS n) AS r`
	for _, way := range []struct {
		name string
		scan func(*sqlx.Rows, *listedRow) error
	}{
		{"table", func(rows *sqlx.Rows, r *listedRow) error { return listedTable.Scan(rows, r) }},
		{"StructScan", func(rows *sqlx.Rows, r *listedRow) error { return rows.StructScan(r) }},
		{"only fetched", func(*sqlx.Rows, *listedRow) error { return nil }},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			rows, err := db.Read.QueryxContext(b.Context(), query, b.N)
			if err != nil {
				b.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				var r listedRow
				if err := way.scan(rows, &r); err != nil {
					b.Fatal(err)
				}
			}
			if err := rows.Err(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
