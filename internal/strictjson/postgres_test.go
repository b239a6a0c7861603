package strictjson_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/test/testdb"
)

// corpus is every value of canonicalForms and a few hundred generated documents, the
// same in each run.
func corpus() []string {
	var values []string
	for _, s := range canonicalForms {
		values = append(values, s.src)
	}
	// At the edges of what the default limits accept.
	values = append(values,
		strings.Repeat("[", 64)+strings.Repeat("]", 64),
		strings.Repeat(`{"b":`, 64)+`0`+strings.Repeat(`,"a":1}`, 64),
		`[1e399,-1e-399,0e999999,0e-399,`+strings.Repeat("9", 399)+`e0,0.`+strings.Repeat("0", 1000)+`1e1001]`,
		`"`+strings.Repeat("日本\\n", 5000)+`"`,
		`{"`+strings.Repeat("k", 5000)+`":1,"`+strings.Repeat("k", 4999)+`":2}`,
	)
	var everyCharacter []rune
	for r := rune(1); r < 0x300; r++ {
		everyCharacter = append(everyCharacter, r)
	}
	escaped, _ := json.Marshal(string(everyCharacter))
	values = append(values, string(escaped))

	documents := document(4)
	for seed := range 500 {
		values = append(values, documents.Example(seed).src)
	}
	return values
}

func TestCanonicalFormIsWhatJSONBPrints(t *testing.T) {
	db, err := sql.Open("postgres", testdb.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	values := corpus()
	rows, err := db.QueryContext(t.Context(),
		`SELECT v::jsonb::text FROM unnest($1::text[]) WITH ORDINALITY AS u (v, n) ORDER BY n`, pq.Array(values))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	i := 0
	for ; rows.Next(); i++ {
		var printed []byte
		if err := rows.Scan(&printed); err != nil {
			t.Fatal(err)
		}
		got := canonical(t, []byte(values[i]))

		var compact bytes.Buffer
		if err := json.Compact(&compact, printed); err != nil {
			t.Fatalf("PostgreSQL printed %q: %v", printed, err)
		}
		if !bytes.Equal(got, compact.Bytes()) {
			t.Errorf("%q:\nCanonical  %q\nPostgreSQL %q", values[i], got, compact.Bytes())
		}
		if back := canonical(t, printed); !bytes.Equal(got, back) {
			t.Errorf("%q:\nbefore the round trip %q\nafter it              %q", values[i], got, back)
		}
	}
	if err := rows.Err(); err != nil || i != len(values) {
		t.Fatalf("%d of %d values came back: %v", i, len(values), err)
	}
}
