package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	_ "github.com/lib/pq"
)

// fakeSchema holds the columns that the benchmark reads, and what the fake reads itself.
const fakeSchema = `
CREATE SCHEMA IF NOT EXISTS saga;
CREATE TABLE IF NOT EXISTS saga.saga_states (
	id uuid PRIMARY KEY DEFAULT gen_random_uuid(), state int NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(), completed_at timestamptz);
CREATE TABLE IF NOT EXISTS saga.saga_step_logs (saga_id uuid NOT NULL, action text NOT NULL, status text NOT NULL);
CREATE TABLE IF NOT EXISTS saga.fake_workflows (definition jsonb NOT NULL);`

// fakeSaga writes what an ended saga leaves behind.
const fakeSaga = `
WITH head AS (
	INSERT INTO saga.saga_states (state, completed_at)
	VALUES ($1, CASE WHEN $2 THEN clock_timestamp() END) RETURNING id
), logs AS (
	INSERT INTO saga.saga_step_logs
	SELECT id, CASE WHEN n <= $3 THEN 'EXECUTE' ELSE 'COMPENSATE' END, 'SUCCESS'
	  FROM head, generate_series(1, $3::int + $4::int) n
)
SELECT id FROM head`

// serveFake stands in for `skald serve`: it writes each saga as ended at once.
// Its mood, from FAKE_MOOD, says what it does wrong.
func serveFake() {
	mood := os.Getenv("FAKE_MOOD")
	if mood == "broken" {
		fmt.Fprintln(os.Stderr, "the fake server is broken")
		os.Exit(1)
	}
	db, err := sql.Open("postgres", os.Getenv("SKALD_DATABASE_URL"))
	if err == nil {
		_, err = db.Exec(fakeSchema)
	}
	if err != nil {
		panic(err)
	}
	defer db.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	sagas := &fakeSagas{db: db, mood: mood, calls: os.Getenv("FAKE_CALLS") != ""}
	mux.HandleFunc("POST /api/v1/workflows", sagas.register)
	mux.Handle("POST /api/v1/sagas", sagas)

	server := &http.Server{Addr: os.Getenv("SKALD_LISTEN_ADDR"), Handler: mux}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		panic(err)
	}
}

type fakeSagas struct {
	db       *sql.DB
	mood     string
	calls    bool // calls are made, as the workflows say
	accepted atomic.Int64
	mixed    atomic.Int64 // those of bench-mixed
}

func (f *fakeSagas) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		WorkflowName string `json:"workflow_name"`
		Payload      json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	state, ended, executed, compensated, status := 3, true, 3, 0, "COMPLETED"
	mixed := body.WorkflowName == "bench-mixed"
	if body.WorkflowName == "bench-undo" || mixed && f.mixed.Add(1)%3 == 0 {
		state, executed, compensated, status = 5, 2, 2, "FAILED"
	}
	if f.calls {
		done, err := f.call(r.Context(), body.WorkflowName, body.Payload)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if !done {
			state, status = 5, "FAILED"
		}
	}
	third := f.accepted.Add(1) == 3 // the one saga that goes wrong
	switch {
	case f.mood == "busy":
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	case f.mood == "dying" && third:
		os.Exit(2)
	case f.mood == "stuck" && third:
		state, ended = 1, false
	case f.mood == "wrong" && third:
		state = 6
	case f.mood == "lazy" && third:
		executed--
	}
	var id string
	if err := f.db.QueryRowContext(r.Context(), fakeSaga, state, ended, executed, compensated).Scan(&id); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if f.mood == "forgetful" && third {
		id = "00000000-0000-0000-0000-000000000000"
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"saga_id":"%s","status":"%s"}`, id, status)
}
