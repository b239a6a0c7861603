package participant_test

import (
	"cmp"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"

	"github.com/skald-saga/skald/api/participant"
	"github.com/skald-saga/skald/internal/test/testdb"
	"github.com/skald-saga/skald/sdk/conformance"
)

// barrier is a participant written with sdk/sql/barrier.sql and without a library.
type barrier struct {
	t   *testing.T
	b   *business
	dsn string
}

func (p barrier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	sum := sha256.Sum256(body)
	h := r.Header
	args := []any{h.Get("X-Saga-Tenant"), h.Get("X-Saga-Id"), h.Get("X-Saga-Step"), h.Get("X-Saga-Action"),
		h.Get("Idempotency-Key"), h.Get("X-Saga-Fence"), hex.EncodeToString(sum[:]), h.Get("X-Saga-Attempt"),
		h.Get("X-Saga-Callback")}
	status, answer, err := p.once(r, args)
	if again := (*participant.NotApplied)(nil); errors.As(err, &again) {
		if again.After > 0 {
			w.Header().Set("Retry-After", "2")
		}
		status = http.StatusTooEarly
	} else if err != nil {
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer)
}

// once runs one transaction.
func (p barrier) once(r *http.Request, args []any) (status int, answer string, err error) {
	db := open(p.t, p.dsn)
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(r.Context(), nil)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = tx.Rollback() }()
	var verdict string
	var known *int
	var text *string
	err = tx.QueryRowContext(r.Context(), `SELECT verdict, status, body FROM skald_begin($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		args...).Scan(&verdict, &known, &text)
	if err != nil {
		return 0, "", err
	}
	if verdict == "answer" {
		return *known, *text, tx.Commit()
	}
	if _, err := tx.ExecContext(r.Context(), `SAVEPOINT work`); err != nil {
		return 0, "", err
	}
	status, answer, failure := p.work(r, tx, verdict)
	if failure == nil && status == http.StatusAccepted {
		_, failure = tx.ExecContext(r.Context(), `SELECT skald_later($1, $2, $3, $4, $5, $6, $7, $8, $9)`, args...)
	}
	if failure != nil || status >= 300 {
		if _, err := tx.ExecContext(r.Context(), `ROLLBACK TO work`); err != nil {
			return 0, "", err
		}
	}
	if failure == nil && status != http.StatusAccepted {
		if _, err := tx.ExecContext(r.Context(), `SELECT skald_keep($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			append(slices.Clone(args[:7]), status, answer)...); err != nil {
			return 0, "", err
		}
	}
	return status, answer, errors.Join(failure, tx.Commit())
}

// work calls the participant's function.
func (p barrier) work(r *http.Request, tx *sql.Tx, verdict string) (status int, answer string, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("panicked")
		}
	}()
	call := &participant.Call{
		Key: r.Header.Get("Idempotency-Key"), Action: participant.Action(r.Header.Get("X-Saga-Action")),
	}
	if verdict != "cancel" {
		return answerOf(p.b.play(r.Context(), tx, call))
	}
	if p.b.v.Participant["cancel"] == nil {
		return http.StatusOK, "{}", nil
	}
	return answerOf(p.b.cancel(r.Context(), tx, call))
}

// answerOf is the answer of a participant whose function returned these values.
func answerOf(output any, failure error) (status int, answer string, err error) {
	if no := (*participant.Refusal)(nil); errors.As(failure, &no) {
		members, _ := json.Marshal(map[string]string{"code": no.Code, "message": no.Message})
		return cmp.Or(no.Status, http.StatusConflict), string(members), nil
	}
	switch {
	case failure != nil, output == nil:
		return http.StatusOK, "", failure
	case output == participant.Later:
		return http.StatusAccepted, `{"later":true}`, nil
	}
	text, err := json.Marshal(output)
	return http.StatusOK, string(text), err
}

// The PostgreSQL functions keep those rules that do not concern HTTP.
func TestVectorsThroughTheSQLFunctions(t *testing.T) {
	dsn := testdb.Empty(t)
	script, err := os.ReadFile("../../sdk/sql/barrier.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, dsn).ExecContext(t.Context(), string(script)+`;CREATE TABLE effects (key text)`); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors(t) {
		ofHTTP := v.Secrets != nil || slices.ContainsFunc(v.Calls, func(c conformance.Call) bool {
			return c.Expect[0].Status == http.StatusBadRequest
		})
		if ofHTTP {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			r, b := newRunner(t, v), newBusiness(v)
			r.start = func() *httptest.Server { return r.serve(b, barrier{t, b, dsn}) }
			r.finish = func(key string, o conformance.Outcome, sent bool) int { return finishInSQL(t, dsn, key, o, sent) }
			r.effects = func() map[string]int { return effectsOf(t, dsn, r.ids) }
			r.run()
		})
	}
}
