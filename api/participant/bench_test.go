package participant_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/participant"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// The benchmark runs the same handler with and without the library, alternating, over HTTP: one
// handler inserts a row, the other does a lookup, an update and an insert, as most handlers do.
// TEST_BENCH_DATABASE_URL names a database that writes to disk; the tests' private database does
// not wait for its disk.
func BenchmarkBesideAPlainHandler(b *testing.B) {
	dsn := os.Getenv("TEST_BENCH_DATABASE_URL")
	if dsn == "" {
		dsn = testdb.Empty(b)
	}
	if _, err := open(b, dsn).ExecContext(b.Context(), `DROP TABLE IF EXISTS skald_calls, effects, accounts`); err != nil {
		b.Fatal(err) // rows of an earlier run
	}
	migrate(b, dsn)
	if _, err := open(b, dsn).ExecContext(b.Context(), `CREATE TABLE accounts (id int PRIMARY KEY, balance bigint);
		INSERT INTO accounts SELECT n, 0 FROM generate_series(0, 999) n`); err != nil {
		b.Fatal(err)
	}
	insert := func(ctx context.Context, tx *sql.Tx, key string, _ int) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO effects VALUES ($1)`, key)
		return err
	}
	charge := func(ctx context.Context, tx *sql.Tx, key string, amount int) error {
		var balance int
		account := len(key) % 1000
		err := tx.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = $1 FOR UPDATE`, account).Scan(&balance)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE accounts SET balance = $2 WHERE id = $1`, account, balance-amount); err != nil {
			return err
		}
		return insert(ctx, tx, key, amount)
	}
	for name, do := range map[string]func(context.Context, *sql.Tx, string, int) error{
		"one statement": insert, "three statements": charge,
	} {
		b.Run(name, func(b *testing.B) { beside(b, dsn, do) })
	}
}

// order is what the handlers read from a call.
type order struct {
	Amount int `json:"amount"`
}

func beside(b *testing.B, dsn string, do func(context.Context, *sql.Tx, string, int) error) {
	db := open(b, dsn)
	servers := map[string]*httptest.Server{}
	for name, store := range map[string]participant.Store{"with": together(b, dsn), "by-sql.Open": postgres(b, dsn)} {
		library, err := participant.New(participant.Config{Store: store, Execute: func(
			ctx context.Context, tx *sql.Tx, c *participant.Call,
		) (any, error) {
			var order order
			if err := json.Unmarshal(c.Payload, &order); err != nil {
				return nil, err
			}
			return map[string]string{"charge_id": c.Key}, do(ctx, tx, c.Key, order.Amount)
		}})
		if err != nil {
			b.Fatal(err)
		}
		servers[name] = httptest.NewServer(library)
	}
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Payload order `json:"payload"`
		}
		err := json.NewDecoder(r.Body).Decode(&call)
		var tx *sql.Tx
		if err == nil {
			tx, err = db.BeginTx(r.Context(), nil)
		}
		if err == nil {
			if err = do(r.Context(), tx, r.Header.Get("Idempotency-Key"), call.Payload.Amount); err == nil {
				err = tx.Commit()
			}
		}
		if err != nil {
			b.Error(err)
		}
		_, _ = fmt.Fprintf(w, `{"charge_id":%q}`, r.Header.Get("Idempotency-Key"))
	})
	took := map[string][]time.Duration{}
	servers["without"] = httptest.NewServer(plain)
	n, run := 0, time.Now().UnixNano() // the keys of an earlier run are in the database
	order := slices.Collect(maps.Keys(servers))
	for b.Loop() {
		for _, name := range order {
			n++
			begin := time.Now()
			post(b, servers[name], fmt.Sprintf("saga-%d-%d", run, n))
			took[name] = append(took[name], time.Since(begin))
		}
		rand.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	}
	for name, s := range servers {
		s.Close()
		b.ReportMetric(micros(took[name]), "µs/"+name)
		if name != "without" {
			b.ReportMetric(100*(micros(took[name])/micros(took["without"])-1), "%more/"+name)
		}
	}
}

// micros is the mean of the middle half, so that a single pause of the machine does not decide the
// result.
func micros(all []time.Duration) (mean float64) {
	slices.Sort(all)
	middle := all[len(all)/4 : max(len(all)/4+1, len(all)*3/4)]
	for _, d := range middle {
		mean += float64(d) / float64(time.Microsecond) / float64(len(middle))
	}
	return mean
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
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b.Fatal(res.Status)
	}
}
