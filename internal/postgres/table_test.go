package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/postgres"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// kinds has a value of each kind of column.
type kinds struct {
	ID, Maybe    uuid.UUID
	Other        *uuid.UUID
	Name, Empty  string
	Nil          *string
	Number, Some int
	None         *int
	Float        *float64
	Yes          bool
	Perhaps      *bool
	At           time.Time
	Ended        *time.Time
	Once         time.Time
	Raw          []byte
	Doc          []byte
	List         []string
	IDs          []uuid.UUID
	Share        float64
	Serial       int64
	asked        bool
}

var kindsTable = postgres.NewTable(
	postgres.UUID("id", func(k *kinds) *uuid.UUID { return &k.ID }),
	postgres.UUIDOrZero("maybe", func(k *kinds) *uuid.UUID { return &k.Maybe }),
	postgres.UUIDOrNil("other", func(k *kinds) **uuid.UUID { return &k.Other }),
	postgres.Int("serial", func(k *kinds) *int64 { return &k.Serial }).ReadOnly(),
	postgres.Text("name", func(k *kinds) *string { return &k.Name }),
	postgres.TextOrEmpty("empty", func(k *kinds) *string { return &k.Empty }),
	postgres.TextOrNil("nil", func(k *kinds) **string { return &k.Nil }),
	postgres.Int("number", func(k *kinds) *int { return &k.Number }),
	postgres.IntOr(-1, "few", func(k *kinds) *int { return &k.Some }),
	postgres.IntOrNil("none", func(k *kinds) **int { return &k.None }),
	postgres.FloatOrNil("float", func(k *kinds) **float64 { return &k.Float }),
	postgres.Bool("yes", func(k *kinds) *bool { return &k.Yes }),
	postgres.Bool("asked", func(k *kinds) *bool { return &k.asked }).InputOnly(),
	postgres.BoolOrNil("perhaps", func(k *kinds) **bool { return &k.Perhaps }),
	postgres.Time("at", func(k *kinds) *time.Time { return &k.At }),
	postgres.TimeOrNil("ended", func(k *kinds) **time.Time { return &k.Ended }),
	postgres.TimeOrZero("once", func(k *kinds) *time.Time { return &k.Once }),
	postgres.Bytes("raw", func(k *kinds) *[]byte { return &k.Raw }),
	postgres.JSON("doc", func(k *kinds) *[]byte { return &k.Doc }),
	postgres.Texts("list", func(k *kinds) *[]string { return &k.List }),
	postgres.UUIDsOrNil("ids", func(k *kinds) *[]uuid.UUID { return &k.IDs }),
	postgres.Float("share", func(k *kinds) *float64 { return &k.Share }),
	postgres.Int("twice", func(k *kinds) *int { return &k.Number }).From("k.number * 2").WriteOnly(),
)

// tableOfKinds returns a connection with an empty table kinds, and rows for the table, of which the
// first two are inserted.
func tableOfKinds(t *testing.T, pool *sqlx.DB) (*sql.Conn, []kinds) {
	t.Helper()
	conn, err := pool.DB.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.ExecContext(t.Context(), `CREATE TEMPORARY TABLE kinds (id uuid, maybe uuid, other uuid, serial bigserial, name text, empty text, nil text, number bigint, few bigint, none bigint,
		"float" float8, yes bool, perhaps bool, at timestamptz, ended timestamptz, once timestamptz, raw bytea, doc jsonb, list text[], ids uuid[], share float8, twice bigint)`)
	if err != nil {
		t.Fatal(err)
	}
	when := time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC)
	return conn, []kinds{
		{
			ID: uuid.New(), Maybe: uuid.New(), Other: new(uuid.New()),
			Name: "n", Empty: "e", Nil: new("t"), Number: 1, Some: 2, None: new(3),
			Float: new(0.5), Yes: true,
			Perhaps: new(false), At: when, Ended: &when, Once: when, Raw: []byte{0, 1},
			Doc: []byte(`{"a": 1}`), List: []string{"a,b", `"`},
			IDs: []uuid.UUID{uuid.New(), uuid.New()}, Share: 0.1,
			Serial: 1, asked: true,
		},
		{ID: uuid.New(), Some: -1, At: when, List: []string{}, Serial: 2, asked: true},
		{ID: uuid.New(), Number: 7, At: when, List: []string{}}, // not inserted
	}
}

// wantKinds compares the table with rows.
func wantKinds(t *testing.T, conn *sql.Conn, rows []kinds) {
	t.Helper()
	found, err := conn.QueryContext(t.Context(), `SELECT `+kindsTable.Selected("k")+`, k.twice FROM kinds k ORDER BY k.serial`)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	var got []kinds
	for found.Next() {
		k, twice := kinds{Empty: "before", Some: 9, asked: true}, sql.NullInt64{}
		if err := kindsTable.Scan(found, &k, &twice); err != nil {
			t.Fatal(err)
		}
		if twice.Int64 != int64(2*k.Number) {
			t.Errorf("twice %d is %d", k.Number, twice.Int64)
		}
		got = append(got, k)
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, got, cmp.AllowUnexported(kinds{})); diff != "" {
		t.Errorf("rows (-written +read):\n%s", diff)
	}
	if at := got[0].Ended.Location(); at != time.UTC {
		t.Errorf("a time is in %v", at)
	}
}

func TestARowOfATableIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	conn, rows := tableOfKinds(t, pgtest.Connect(t, testdb.DSN(t)).Write)
	batch := kindsTable.Batch(len(rows))
	for i := range rows {
		batch.Add(&rows[i])
	}
	insert := postgres.Named(`INSERT INTO kinds (`+kindsTable.Inserted()+`) SELECT `+kindsTable.Stored("k")+` FROM `+
		postgres.UnnestNumbered("k", kindsTable.As("k"))+` WHERE k.asked AND @most > 0 ORDER BY k.n`, kindsTable.As("k"), postgres.Single("most"))
	if _, err := conn.ExecContext(t.Context(), insert.Text, insert.Args(batch, postgres.Values{5})...); err != nil {
		t.Fatal(err)
	}
	wantKinds(t, conn, rows[:2])
}

// With the same columns as a batch, on connections without binary results too.
func TestASingleRowIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	stored := kindsTable.Without("asked", "twice")
	insert := postgres.Named(`INSERT INTO kinds (`+stored.Inserted()+`) VALUES (`+stored.Values("k")+`)`, stored.As("k"))
	change := kindsTable.Only("id", "serial", "number", "ended", "doc", "list")
	update := postgres.Named(`UPDATE kinds SET `+change.Set("k", "id")+`, twice = 2 * @k.number::bigint WHERE id = @k.id`, change.As("k"))
	db := pgtest.Connect(t, testdb.DSN(t))
	for name, pool := range map[string]*sqlx.DB{"readers": db.Read, "writers": db.Write} {
		t.Run(name, func(t *testing.T) {
			conn, rows := tableOfKinds(t, pool)
			for i := range rows[:2] {
				if _, err := conn.ExecContext(t.Context(), insert.Text, insert.Args(stored.Row(&rows[i]))...); err != nil {
					t.Fatal(err)
				}
				rows[i].Serial, rows[i].Number, rows[i].Doc, rows[i].List = int64(10+i), 8+i, nil, nil
				if _, err := conn.ExecContext(t.Context(), update.Text, update.Args(change.Row(&rows[i]))...); err != nil {
					t.Fatal(err)
				}
				rows[i].List = []string{} // a list is never NULL
			}
			wantKinds(t, conn, rows[:2])
		})
	}
}

func TestRowsAreChangedByABatch(t *testing.T) {
	t.Parallel()
	conn, rows := tableOfKinds(t, pgtest.Connect(t, testdb.DSN(t)).Write)
	insert := postgres.Named(`INSERT INTO kinds (`+kindsTable.Inserted()+`) SELECT `+kindsTable.Stored("k")+` FROM `+
		postgres.Unnest("k", kindsTable.As("k"))+` WHERE k.asked`, kindsTable.As("k"))
	change := kindsTable.Without("serial", "at", "twice")
	update := postgres.Named(`UPDATE kinds t SET `+change.SetFrom("k", "id")+`, twice = 2 * k.number FROM `+
		postgres.Unnest("k", change.As("k"))+` WHERE k.asked AND t.id = k.id`, change.As("k"))
	batch, changes := kindsTable.Batch(len(rows)), change.Batch(len(rows))
	for i := range rows {
		batch.Add(&rows[i])
	}
	if _, err := conn.ExecContext(t.Context(), insert.Text, insert.Args(batch)...); err != nil {
		t.Fatal(err)
	}
	rows[0].Name, rows[0].Nil, rows[0].Doc = "other", nil, []byte(`{"b": 2}`)
	rows[1].Number, rows[1].Ended = 9, new(rows[1].At)
	for i := range rows {
		later := rows[i]
		later.At = later.At.Add(time.Hour) // not a column of the change
		changes.Add(&later)
	}
	if _, err := conn.ExecContext(t.Context(), update.Text, update.Args(changes)...); err != nil {
		t.Fatal(err)
	}
	wantKinds(t, conn, rows[:2])
}

// papers has documents of Go values.
type papers struct {
	Must struct{ A int }
	May  *struct{ B []string }
}

func TestDocumentsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	table := postgres.NewTable(
		postgres.Doc("must", func(p *papers) *struct{ A int } { return &p.Must }),
		postgres.Doc("may", func(p *papers) **struct{ B []string } { return &p.May }),
	)
	query := postgres.Named(`SELECT d.*, d.may IS NULL FROM (VALUES (`+table.Values("d")+`)) AS d (`+table.Inserted()+`)`, table.As("d"))
	db := pgtest.Connect(t, testdb.DSN(t))
	for _, want := range []papers{{Must: struct{ A int }{1}, May: &struct{ B []string }{[]string{"ä", `"`}}}, {}} {
		var null bool
		got, err := table.One(db.Read.QueryRowContext(t.Context(), query.Text, query.Args(table.Row(&want))...), &null)
		if diff := cmp.Diff(want, got); diff != "" || err != nil || null != (want.May == nil) {
			t.Errorf("%v, NULL: %v (-written +read):\n%s", err, null, diff)
		}
	}
	var p papers
	if err := table.Scan(db.Read.QueryRowContext(t.Context(), `SELECT '{"A": "text"}'::jsonb, NULL`), &p); err == nil {
		t.Error("a document of another form was read")
	}
}

func TestAStatementWhoseParametersDoNotFitIsNoStatement(t *testing.T) {
	t.Parallel()
	list := kindsTable.As("k")
	other := postgres.NewTable(postgres.Int("number", func(k *kinds) *int { return &k.Number }))
	for _, tt := range []struct {
		name, panics string
		make         func()
	}{
		{"misspelled", "@k.nmae", func() { postgres.Named(`SELECT @k.nmae`, list) }},
		{"single value misspelled", "@limt", func() { postgres.Named(`SELECT @limt`, postgres.Single("limit")) }},
		{"unused", "@limit", func() { postgres.Named(postgres.Unnest("k", list), list, postgres.Single("limit")) }},
		{"twice", "@limit", func() { postgres.Named(`SELECT @limit`, postgres.Single("limit"), postgres.Single("limit")) }},
		{"column twice", "number", func() {
			n := postgres.Int("number", func(k *kinds) *int { return &k.Number })
			postgres.NewTable(n, n)
		}},
		{"part with a column that it has not", "nmae", func() { kindsTable.Only("nmae") }},
		{"batch of documents", "one by one", func() {
			table := postgres.NewTable(postgres.Doc("doc", func(k *kinds) *kinds { return k }))
			table.Batch(1).Add(&kinds{})
		}},
		{"of another table", "do not belong to", func() {
			postgres.Named(postgres.Unnest("k", list), list).Args(other.Batch(1))
		}},
		{"too few", "too few", func() {
			postgres.Named(postgres.Unnest("k", list)+` WHERE @limit > 0`, list,
				postgres.Single("limit")).Args(kindsTable.Batch(1))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, tt.panics) {
					t.Errorf("panic says %q, want something of %q", said, tt.panics)
				}
			}()
			tt.make()
		})
	}
}

func TestOnlyNamesOfParametersAreReplaced(t *testing.T) {
	t.Parallel()
	const text = `SELECT '{}'::jsonb @> @doc::jsonb, ARRAY[@list::text[]] @> '{}', @doc || '$1'`
	const want = `SELECT '{}'::jsonb @> $2::jsonb, ARRAY[$1::text[]] @> '{}', $2 || '$1'`
	if got := postgres.Named(text, postgres.Single("list", "doc")).Text; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBatchesAreSentOnWritersConnectionsOnly(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t))
	var list postgres.BinaryColumn
	list.Int(1 << 40)
	list.Int(200)
	sum := func(tx *sqlx.Tx) (n int64, err error) {
		err = tx.GetContext(t.Context(), &n, `SELECT sum(i) FROM unnest($1::bigint[]) AS i`, list.Parameter())
		return n, err
	}
	err := db.InWrite(t.Context(), func(tx *sqlx.Tx) error {
		n, err := sum(tx)
		if n != 1<<40+200 {
			t.Errorf("the sum is %d", n)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for name, in := range map[string]func(context.Context, func(*sqlx.Tx) error) error{
		"InTenant": func(ctx context.Context, f func(*sqlx.Tx) error) error { return db.InTenant(ctx, uuid.New(), f) },
		"InRead":   db.InRead,
	} {
		err := in(t.Context(), func(tx *sqlx.Tx) error {
			_, err := sum(tx)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "InWrite") {
			t.Errorf("%s: %v, want to be told of InWrite", name, err)
		}
	}
}
