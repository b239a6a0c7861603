package participant_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/participant"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// The same handler with the library and without it, in turns, over HTTP. A database with a disk that is
// written to: SKALD_BENCH_DATABASE_URL; the private one of tests does not wait for its disk.
func BenchmarkBesideAPlainHandler(b *testing.B) {
	dsn := os.Getenv("SKALD_BENCH_DATABASE_URL")
	if dsn == "" {
		dsn = testdb.Empty(b)
	}
	migrate(b, dsn)
	db := open(b, dsn)
	insert := func(ctx context.Context, tx *sql.Tx, key string) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO effects VALUES ($1)`, key)
		return err
	}
	library, err := participant.New(participant.Config{Store: postgres(b, dsn), Execute: func(
		ctx context.Context, tx *sql.Tx, c *participant.Call,
	) (any, error) {
		return map[string]string{"charge_id": c.Key}, insert(ctx, tx, c.Key)
	}})
	if err != nil {
		b.Fatal(err)
	}
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, err := db.BeginTx(r.Context(), nil)
		if err == nil {
			if err = insert(r.Context(), tx, r.Header.Get("Idempotency-Key")); err == nil {
				err = tx.Commit()
			}
		}
		if err != nil {
			b.Error(err)
		}
		_, _ = fmt.Fprintf(w, `{"charge_id":%q}`, r.Header.Get("Idempotency-Key"))
	})
	took := map[string]time.Duration{}
	servers := map[string]*httptest.Server{
		"with": httptest.NewServer(library), "without": httptest.NewServer(plain),
	}
	n, run := 0, time.Now().UnixNano() // the keys of an earlier run are in the database
	for b.Loop() {
		for _, name := range []string{"with", "without"} {
			n++
			begin := time.Now()
			post(b, servers[name], fmt.Sprintf("saga-%d-%d", run, n))
			took[name] += time.Since(begin)
		}
	}
	for name, s := range servers {
		s.Close()
		b.ReportMetric(float64(took[name].Microseconds())/float64(b.N), "µs/"+name)
	}
	b.ReportMetric(100*(float64(took["with"])/float64(took["without"])-1), "%more")
}

func post(b *testing.B, s *httptest.Server, saga string) {
	body := fmt.Sprintf(`{"saga_id":%q,"step":"x","action":"execute","payload":{"amount":5},"outputs":{}}`, saga)
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	for name, value := range map[string]string{
		"Idempotency-Key": saga + "/x/execute", "X-Saga-Id": saga, "X-Saga-Step": "x", "X-Saga-Action": "execute",
	} {
		r.Header.Set(name, value)
	}
	res, err := s.Client().Do(r)
	if err != nil {
		b.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b.Fatal(res.Status)
	}
}
