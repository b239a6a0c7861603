package participant_test

import (
	"context"
	"database/sql"
	"log"
	"net/http"

	"github.com/skald-saga/skald/api/participant"
)

// A participant that charges cards and keeps the charges in the same database.
func Example() {
	db, err := participant.Open("postgres", "postgres://payments")
	if err != nil {
		log.Fatal(err)
	}
	store, err := participant.SQL(db, participant.PostgreSQL)
	if err != nil {
		log.Fatal(err)
	}
	charges, err := participant.New(participant.Config{
		Store: store,
		Execute: func(ctx context.Context, tx *sql.Tx, c *participant.Call) (any, error) {
			var order struct{ Amount float64 }
			if err := c.Decode(&order); err != nil {
				return nil, participant.Refuse("UNREADABLE_ORDER", err.Error())
			}
			if order.Amount > 10000 {
				return nil, participant.Refuse("INSUFFICIENT_FUNDS", "the card was declined")
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO charges (saga_id, amount) VALUES ($1, $2)`, c.Saga, order.Amount)
			return map[string]any{"charged": order.Amount}, err
		},
		Compensate: func(ctx context.Context, tx *sql.Tx, c *participant.Call) (any, error) {
			_, err := tx.ExecContext(ctx, `DELETE FROM charges WHERE saga_id = $1`, c.Saga)
			return nil, err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("POST /charges", charges)
	http.Handle("POST /charges/refund", charges)
	log.Fatal(http.ListenAndServe("127.0.0.1:9001", nil)) //nolint:gosec // an example
}
