package participant_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/lib/pq"

	"github.com/skald-saga/skald/api/participant"
	"github.com/skald-saga/skald/sdk/conformance"
)

// finishInSQL is a worker written with sdk/sql/barrier.sql. It returns the status of the finished
// work.
func finishInSQL(t *testing.T, dsn, key string, o conformance.Outcome, sent bool) int {
	db := open(t, dsn)
	defer func() { _ = db.Close() }()
	var alive string
	refused := statusOf(db.QueryRowContext(t.Context(), `SELECT skald_callback($1)`, key).Scan(&alive))
	callback, report, err := endInSQL(t.Context(), dsn, t, key, o)
	switch status := statusOf(err); {
	case status == 0, refused == 0, refused != http.StatusOK && status == http.StatusOK:
		t.Errorf("the end of %s: %v, where heartbeats go: %d", key, err, refused)
		return http.StatusInternalServerError
	case status != http.StatusOK:
		return status
	}
	if sent {
		res, err := http.Post(callback, "application/json", strings.NewReader(report)) //nolint:noctx // URL of a test
		if err != nil {
			t.Error(err)
			return http.StatusInternalServerError
		}
		_ = res.Body.Close()
	}
	return http.StatusOK
}

// endInSQL is the worker's transaction.
func endInSQL(
	ctx context.Context, dsn string, t *testing.T, key string, o conformance.Outcome,
) (callback, report string, err error) {
	db := open(t, dsn)
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = tx.Rollback() }() // no effect after a commit
	output, failure := finished(o)
	if failure == nil {
		if _, err := tx.ExecContext(ctx, insertEffect, key); err != nil {
			return "", "", err
		}
	}
	status, answer, failure := answerOf(output, failure)
	if again := (*participant.NotApplied)(nil); errors.As(failure, &again) {
		status = http.StatusTooEarly
	} else if failure != nil {
		status = http.StatusInternalServerError
	}
	if err := tx.QueryRowContext(ctx, `SELECT callback, report FROM skald_finish($1, $2, $3)`, key, status, answer).
		Scan(&callback, &report); err != nil {
		return "", "", err
	}
	return callback, report, tx.Commit()
}

// statusOf returns the status of a finished work item, or 0 if it failed for a reason other than
// that the work is no longer wanted.
func statusOf(err error) int {
	refused := (*pq.Error)(nil)
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &refused) && refused.Code == "SK409":
		return http.StatusConflict
	case errors.As(err, &refused) && refused.Code == "SK404":
		return http.StatusNotFound
	}
	return 0
}
