// Command packing is a participant that answers later: POST /parcels notes an order, and a worker
// packs it WORK_MS later. GET /effects?key=… returns how often a key took effect. It needs a
// PostgreSQL at DATABASE_URL.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	_ "github.com/lib/pq"

	"github.com/skald-saga/skald/api/participant"
)

const tables = `
CREATE TABLE IF NOT EXISTS parcels (saga text PRIMARY KEY, key text NOT NULL, due timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS packed (key text NOT NULL)`

func main() {
	work, err := strconv.Atoi(os.Getenv("WORK_MS"))
	fatal(err)
	db, err := participant.Open("postgres", os.Getenv("DATABASE_URL"))
	fatal(err)
	_, err = db.Exec(tables)
	fatal(err)
	store, err := participant.SQL(db, participant.PostgreSQL)
	fatal(err)
	packing, err := participant.New(participant.Config{
		Store: store,
		Execute: func(ctx context.Context, tx *sql.Tx, c *participant.Call) (any, error) {
			_, err := tx.ExecContext(ctx, `INSERT INTO parcels VALUES ($1, $2, now() + $3 * interval '1 ms')`, c.Saga, c.Key, work)
			return participant.Later, err
		},
		Cancel: func(ctx context.Context, tx *sql.Tx, c *participant.Call) (any, error) { // it was not packed yet
			_, err := tx.ExecContext(ctx, `DELETE FROM parcels WHERE saga = $1`, c.Saga)
			return nil, err
		},
		Compensate: func(ctx context.Context, tx *sql.Tx, c *participant.Call) (any, error) {
			_, err := tx.ExecContext(ctx, `INSERT INTO packed VALUES ($1)`, c.Key)
			return nil, err
		},
	})
	fatal(err)
	http.Handle("POST /parcels", packing)
	http.HandleFunc("GET /effects", func(w http.ResponseWriter, r *http.Request) {
		var n int
		fatal(db.QueryRow(`SELECT count(*) FROM packed WHERE key = $1`, r.FormValue("key")).Scan(&n))
		fmt.Fprintf(w, `{"effects":%d}`, n)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(err)
	fmt.Printf("http://%s/parcels\n", listener.Addr())
	go func() { fatal(http.Serve(listener, nil)) }()
	for ; ; time.Sleep(50 * time.Millisecond) {
		fatal(pack(db, packing))
	}
}

// pack packs the orders that are due. They are in the database, so another process continues where
// this one ends.
func pack(db *sql.DB, packing *participant.Handler) error {
	rows, err := db.Query(`SELECT key FROM parcels WHERE due < now()`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return err
		}
		report, err := packed(db, packing, key)
		switch {
		case errors.Is(err, participant.ErrCompensated), errors.Is(err, participant.ErrNotPending):
		case err != nil:
			return err
		default:
			go func() { _ = report.Send(context.Background()) }() // if it is lost, a repeated call gets the answer
		}
	}
	return rows.Err()
}

func packed(db *sql.DB, packing *participant.Handler, key string) (*participant.Report, error) {
	tx, err := db.Begin()
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit, it does nothing
	report, err := packing.Finish(context.Background(), tx, key, map[string]string{"parcel": key}, nil)
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{`DELETE FROM parcels WHERE key = $1`, `INSERT INTO packed VALUES ($1)`} {
		if _, err := tx.Exec(statement, key); err != nil {
			return nil, err
		}
	}
	return report, tx.Commit()
}

func fatal(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
