package app_test

import (
	"database/sql"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// hashedKinds lists the kinds of subjects whose actions have hashes of the state before and after.
const hashedKinds = `('workflow', 'webhook', 'api_key', 'job_definition', 'job_settings', 'topic_policy', 'dead_letter_group')`

// hashed requires a hash in every row of a request to such a subject. Sending something to a
// webhook does not change the webhook.
func (w *walker) hashed(op, request string) {
	w.t.Helper()
	var bare int
	err := w.db.QueryRowContext(w.t.Context(), `SELECT count(*) FROM saga.audit_actions WHERE request_id = $1 AND kind IN `+hashedKinds+`
		AND verb NOT IN ('test', 'redeliver') AND before_hash IS NULL AND after_hash IS NULL`, request).
		Scan(&bare)
	if err != nil || bare > 0 {
		w.t.Errorf("%s leaves %d rows that do not say what was changed, %v", op, bare, err)
	}
}

// chained requires that each action on a subject begins with the hash with which the previous one
// ended; a creation has no hash before, and a deletion none after.
func (w *walker) chained() {
	w.t.Helper()
	rows, err := w.db.QueryContext(w.t.Context(), `
		SELECT kind, CASE kind WHEN 'job_settings' THEN '' ELSE subject END, verb, encode(before_hash, 'hex'), encode(after_hash, 'hex')
		  FROM saga.audit_actions WHERE kind IN `+hashedKinds+` AND verb NOT IN ('test', 'redeliver') ORDER BY tenant_id, txid, n`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	ends, links := map[[2]string]string{}, map[operator.Kind]int{}
	for rows.Next() {
		var kind, subject, verb string
		var before, after sql.NullString
		if err := rows.Scan(&kind, &subject, &verb, &before, &after); err != nil {
			w.t.Fatal(err)
		}
		of := [2]string{kind, subject}
		end, known := ends[of]
		switch {
		case known && before.String != end:
			w.t.Errorf("%s of the %s %s begins at %q, and the one before ended at %q", verb, kind, subject, before.String, end)
		case known:
			links[operator.Kind(kind)]++
		case before.Valid == (verb == "create" || verb == "register" || kind == string(operator.TopicPolicy)):
			w.t.Errorf("%s of the %s %s, the first on record, begins at %q", verb, kind, subject, before.String)
		}
		if after.Valid == (verb == "delete") {
			w.t.Errorf("%s of the %s %s ends at %q", verb, kind, subject, after.String)
		}
		if before.String == after.String {
			w.t.Errorf("%s of the %s %s changes nothing: %q", verb, kind, subject, after.String)
		}
		ends[of] = after.String
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	for kind, least := range map[operator.Kind]int{
		operator.Workflow: 2, operator.Webhook: 5, operator.APIKey: 1, operator.JobDefinition: 7,
		operator.JobSettings: 1, operator.TopicPolicy: 3, operator.DeadGroup: 1,
	} {
		if links[kind] < least {
			w.t.Errorf("%d changes of a %s follow one another, want %d or more", links[kind], kind, least)
		}
	}
}
