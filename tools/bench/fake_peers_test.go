package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
)

// fakeStep is a step by the URLs that it calls; undo may be "".
type fakeStep struct{ action, undo string }

// runSteps calls the steps, and returns false if one was refused and the others were undone.
func runSteps(ctx context.Context, steps []fakeStep, payload []byte) (done bool, err error) {
	for i, step := range steps {
		code, err := post(ctx, step.action, payload)
		if err == nil && code == http.StatusOK {
			continue
		}
		if err != nil || code != http.StatusConflict {
			return false, fmt.Errorf("%s: %d: %w", step.action, code, err)
		}
		for _, undone := range steps[:i] {
			if _, err := post(ctx, undone.undo, payload); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	return true, nil
}

func post(ctx context.Context, url string, body []byte) (code int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// register keeps a workflow.
func (f *fakeSagas) register(w http.ResponseWriter, r *http.Request) {
	definition, err := io.ReadAll(r.Body)
	if err == nil {
		_, err = f.db.ExecContext(r.Context(), `INSERT INTO saga.fake_workflows VALUES ($1)`, string(definition))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// call makes the calls of a saga.
func (f *fakeSagas) call(ctx context.Context, workflow string, payload []byte) (done bool, err error) {
	rows, err := f.db.QueryContext(ctx, `
SELECT step->'action'->'http'->>'url', coalesce(step->'compensation'->'http'->>'url', '')
  FROM saga.fake_workflows, jsonb_array_elements(definition->'steps') WITH ORDINALITY AS steps(step, n)
 WHERE definition->>'name' = $1 ORDER BY n`, workflow)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	var steps []fakeStep
	for rows.Next() {
		var step fakeStep
		if err := rows.Scan(&step.action, &step.undo); err != nil {
			return false, err
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		return false, err
	}
	return runSteps(ctx, steps, payload)
}

// fakeDTMTables are the columns that the comparison reads.
const fakeDTMTables = `CREATE TABLE trans_global (gid text PRIMARY KEY, status text NOT NULL)`

// fakeDTM stands in for DTM, and has a fault. With UpdateBranchSync it makes a call too many for the first
// order of each process; without, it never works on the first order of all.
type fakeDTM struct {
	db     *sql.DB
	sync   bool
	placed atomic.Int64
}

func serveFakeDTM() {
	store := url.URL{
		Scheme: "postgres", Host: os.Getenv("STORE_HOST") + ":" + os.Getenv("STORE_PORT"), Path: "/" + os.Getenv("STORE_DB"),
		User: url.UserPassword(os.Getenv("STORE_USER"), os.Getenv("STORE_PASSWORD")), RawQuery: "sslmode=disable",
	}
	db, err := sql.Open("postgres", store.String())
	if err != nil {
		panic(err)
	}
	defer db.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/dtmsvr/all", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("POST /api/dtmsvr/submit", &fakeDTM{db: db, sync: os.Getenv("UPDATE_BRANCH_SYNC") == "1"})
	server := &http.Server{Addr: "127.0.0.1:" + os.Getenv("HTTP_PORT"), Handler: mux}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		panic(err)
	}
}

func (f *fakeDTM) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code, err := f.submit(r)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case code == http.StatusConflict:
		http.Error(w, "FAILURE", code)
	default:
		fmt.Fprint(w, "SUCCESS")
	}
}

func (f *fakeDTM) submit(r *http.Request) (code int, err error) {
	var saga struct {
		Gid      string
		Steps    []struct{ Action, Compensate string }
		Payloads []string
	}
	if err := json.NewDecoder(r.Body).Decode(&saga); err != nil {
		return 0, err
	}
	var sagas int
	if err := f.db.QueryRowContext(r.Context(), `SELECT count(*) FROM trans_global`).Scan(&sagas); err != nil {
		return 0, err
	}
	first := f.placed.Add(1) == 1
	if first && sagas == 0 && !f.sync {
		return http.StatusOK, f.store(r.Context(), saga.Gid, "submitted")
	}
	var steps []fakeStep
	for _, step := range saga.Steps {
		steps = append(steps, fakeStep{step.Action, step.Compensate})
	}
	payload := []byte(saga.Payloads[0])
	done, err := runSteps(r.Context(), steps, payload)
	if err == nil && first && f.sync {
		_, err = post(r.Context(), strings.Replace(steps[0].action, "/stock/reserve", "/further/step-3", 1), payload)
	}
	if err != nil {
		return 0, err
	}
	if !done {
		return http.StatusConflict, f.store(r.Context(), saga.Gid, "failed")
	}
	return http.StatusOK, f.store(r.Context(), saga.Gid, "succeed")
}

func (f *fakeDTM) store(ctx context.Context, gid, status string) error {
	_, err := f.db.ExecContext(ctx, `INSERT INTO trans_global VALUES ($1, $2)`, gid, status)
	return err
}
