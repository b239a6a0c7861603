package postgres_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// same has columns of fixed and of variable length, and nullable ones.
type same struct {
	ID, Of uuid.UUID
	Name   string
	Note   *string
	Raw    []byte
	Doc    []byte
	List   []string
}

var (
	sameTable = postgres.NewTable(
		postgres.UUID("id", func(s *same) *uuid.UUID { return &s.ID }),
		postgres.UUID("of", func(s *same) *uuid.UUID { return &s.Of }).Once(),
		postgres.Text("name", func(s *same) *string { return &s.Name }).Once(),
		postgres.TextOrNil("note", func(s *same) **string { return &s.Note }).Once(),
		postgres.Bytes("raw", func(s *same) *[]byte { return &s.Raw }).Once(),
		postgres.JSON("doc", func(s *same) *[]byte { return &s.Doc }).Once(),
		postgres.Texts("list", func(s *same) *[]string { return &s.List }).Once(),
	)
	alikeTable = sameTable.Alike()
)

func alike(rows []same) *postgres.Batch[same] {
	batch := sameTable.Batch(len(rows))
	for i := range rows {
		batch.Add(&rows[i])
	}
	return batch.Alike(alikeTable)
}

func TestOnceColumnsAreStoredInEveryRow(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	insert := postgres.Named(`INSERT INTO same (`+alikeTable.Inserted()+`) SELECT `+alikeTable.Stored("s")+` FROM `+
		postgres.UnnestNumbered("s", alikeTable.As("s"))+` ORDER BY s.n`, alikeTable.As("s"))
	of := uuid.New()
	for name, like := range map[string]same{
		"values": {Of: of, Name: "n", Note: new("{}"), Raw: []byte{0, 1}, Doc: []byte(`{"a": 1}`), List: []string{"a,b", `"`}},
		"NULL":   {List: []string{}},
	} {
		want := []same{like, like, like}
		for i := range want {
			want[i].ID = uuid.New()
		}
		batch := alike(want)
		if batch == nil {
			t.Fatalf("%s: equal rows are not alike", name)
		}
		var got []same
		err := db.InWrite(t.Context(), func(tx *sqlx.Tx) error {
			_, err := tx.ExecContext(t.Context(), `CREATE TEMPORARY TABLE same (id uuid, of uuid, name text, note text, raw bytea, doc jsonb, list text[], nth serial) ON COMMIT DROP`)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(t.Context(), insert.Text, insert.Args(batch)...); err != nil {
				return err
			}
			stored := `SELECT ` + sameTable.Selected("s") + ` FROM same s ORDER BY s.nth`
			got, err = sameTable.All(tx.QueryContext(t.Context(), stored))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-written +read):\n%s", name, diff)
		}
	}
}

func TestRowsThatDifferAreNotAlike(t *testing.T) {
	t.Parallel()
	none := same{}
	for name, rows := range map[string][]same{
		"an id":                        {none, {Of: uuid.New()}},
		"the last of three":            {{Name: "a"}, {Name: "a"}, {Name: "b"}},
		"lengths":                      {{Name: "a"}, {Name: "abc"}},
		"NULL first":                   {none, {Note: new("")}},
		"NULL last":                    {{Raw: []byte{}}, none},
		"bytes that look like another": {{Raw: []byte{}}, {Raw: []byte{0, 0, 0, 0, 0, 0, 0, 8}}},
	} {
		if alike(rows) != nil {
			t.Errorf("%s: rows are alike", name)
		}
	}
	if alike([]same{none, {ID: uuid.New()}}) == nil {
		t.Error("rows are not alike, for a column that never travels once")
	}
}
