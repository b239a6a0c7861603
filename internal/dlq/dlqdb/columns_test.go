package dlqdb_test

import (
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/test/pgtest"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// namesOf returns the sorted columns of a table or view of the dead-letter queue.
func namesOf(t *testing.T, db *sql.DB, table string) []string {
	t.Helper()
	names := strings.Fields(pgtest.Ask[string](t, db, `SELECT string_agg(column_name, ' ') FROM information_schema.columns
		WHERE table_schema = 'dlq' AND table_name = '`+table+`'`))
	slices.Sort(names)
	return names
}

// Every column is read and written, except for those that are omitted on purpose.
func TestListsOfColumnsOfLettersAreComplete(t *testing.T) {
	t.Parallel()
	db := pgtest.Connect(t, testdb.DSN(t)).SQL()
	selected := func(list string) (names []string) {
		for _, m := range regexp.MustCompile(`\b(?:[a-z]\.)?([a-z_]+)(?:,|$)`).FindAllStringSubmatch(list, -1) {
			names = append(names, m[1])
		}
		return names
	}
	for _, tt := range []struct {
		what    string
		columns []string
		table   string
		but     []string
	}{
		{"what is read of a letter", selected(dlqdb.ColumnsOfLetters), "dlq_messages", []string{"payload", "terms", "attempts", "order_key", "txid"}},
		{"what is read of an archived letter", selected(dlqdb.ColumnsOfLetters), "dlq_messages_archive", []string{"payload", "terms", "attempts", "order_key", "archived_at", "archive_reason"}},
		{"what is written of a letter", selected(dlqdb.InsertedLetters), "dlq_messages", []string{"seq", "attempts", "retry_token", "retry_lease_until", "held_retry_at", "retry_asked", "txid"}},
		{"what is moved of a letter", selected(dlqdb.MovedColumns), "dlq_messages", []string{"retry_token", "retry_lease_until", "held_retry_at", "retry_asked", "txid"}},
		{"what is read of an attempt", selected(dlqdb.AttemptColumns), "dlq_attempts", []string{"tenant_id"}},
		{"what is read of a revision", selected(dlqdb.RevisionColumns), "dlq_revisions", []string{"tenant_id"}},
		{"what is read of a group", selected(dlqdb.GroupColumns), "dlq_groups", nil},
		{"what is read of a policy", selected(dlqdb.PolicyColumns), "dlq_policies", nil},
		{"the view of letters", namesOf(t, db, "tenant_messages"), "dlq_messages", nil},
		{"the view of the archive", namesOf(t, db, "tenant_messages_archive"), "dlq_messages_archive", nil},
	} {
		got := append(slices.Clone(tt.columns), tt.but...)
		slices.Sort(got)
		if diff := cmp.Diff(namesOf(t, db, tt.table), got); diff != "" {
			t.Errorf("%s (-table +list):\n%s", tt.what, diff)
		}
	}
}
