package dlqdb

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/postgres"
)

// List implements dlq.Letters.
//
// Letters are found by key, headers and payload through hashed terms. These cover the first 40
// headers whose values are text of at most 255 bytes; the first 60 scalars, down to depth 6, of a
// JSON payload of at most 256 kB; and the first 60 words of an error message. Members with a dot in
// their name and sealed content cannot be found.
func (st *Letters) List(ctx context.Context, tenant uuid.UUID, q dlq.Query) (page.Of[dlq.Letter], error) {
	return st.list(ctx, tenant, &LiveLetters, q)
}

// ListArchived implements dlq.Letters.
func (st *Letters) ListArchived(ctx context.Context, tenant uuid.UUID, q dlq.Query) (page.Of[dlq.Letter], error) {
	return st.list(ctx, tenant, &archivedLetters, q)
}

func (st *Letters) list(ctx context.Context, tenant uuid.UUID, t *LetterTable,
	q dlq.Query) (page.Of[dlq.Letter], error) {
	f, err := st.find(ctx, tenant, t, q, tries)
	if err != nil {
		return page.Of[dlq.Letter]{}, fmt.Errorf("list dead letters: %w", err)
	}
	out := page.Cut(q.ByTime, f.letters)
	if err := st.lastErrors(ctx, tenant, out.Items); err != nil {
		return out, fmt.Errorf("read the last retries of dead letters: %w", err)
	}
	if err := st.collectedBy(ctx, tenant, out.Items); err != nil {
		return out, fmt.Errorf("look for redrives that hold dead letters: %w", err)
	}
	switch {
	case !q.Total:
	case f.total >= 0:
		out.Total = f.total
		out.CapTotal(q.TotalCap)
	default:
		if err := postgres.CountPage(ctx, st.db, tenant, q.ByTime, &out,
			func() (string, []any) { return t.count(tenant, q) }); err != nil {
			return out, fmt.Errorf("count dead letters: %w", err)
		}
	}
	return out, nil
}

// order returns the ORDER BY clause of a list; alias is the table's alias.
func (t *LetterTable) order(q *dlq.Query, alias string) string {
	if q.Oldest {
		return " ORDER BY " + alias + ".at, " + alias + ".id"
	}
	return " ORDER BY " + alias + ".at DESC, " + alias + ".id DESC"
}

// page returns the query for one page plus one row, which shows whether there is a next page. Ids
// are found first, through indexes where possible, because each row may be several megabytes: rows
// that are not on the page are not read.
func (t *LetterTable) page(tenant uuid.UUID, q dlq.Query) (query string, args []any) {
	direction := " DESC"
	if q.Oldest {
		direction = ""
	}
	order := " ORDER BY m." + t.at + direction + ", m.id" + direction
	parts, args := t.SelectLetters(tenant, q, "m."+t.at+" AS at, m.id", fmt.Sprint(order, " LIMIT ", q.Offset+q.Limit+1))
	return "SELECT " + t.listed(&q) + " FROM (SELECT p.at, p.id FROM (" + strings.Join(parts, " UNION ALL ") + ") AS p" + t.order(&q, "p") +
		fmt.Sprint(" LIMIT ", q.Limit+1, " OFFSET ", q.Offset) + ") AS page JOIN " + t.table + " m ON m.id = page.id" +
		t.order(&q, "page"), args
}

// listed contains the columns that scanListed reads.
func (t *LetterTable) listed(q *dlq.Query) string {
	columns, omitted := LetterColumns, "false"
	switch {
	case q.Bare:
		columns = bareColumns
	case q.Largest > 0:
		omitted = fmt.Sprintf(`coalesce(octet_length(m.payload_raw), 0) + coalesce(octet_length(m.headers), 0)
			+ coalesce(octet_length(m.message_key), 0) + octet_length(m.error_stack) > %d`, q.Largest)
		unless := func(column string) string { return "CASE WHEN NOT (" + omitted + ") THEN " + column + " END" }
		columns = strings.NewReplacer("m.error_stack", "coalesce("+unless("m.error_stack")+", '')", "m.message_key",
			unless("m.message_key"),
			"m.headers", unless("m.headers"), "m.payload_raw", unless("m.payload_raw")).Replace(LetterColumns)
	}
	if t == &archivedLetters {
		return columns + ", m.archived_at, m.archive_reason, " + omitted
	}
	return columns + ", NULL::timestamptz, NULL::text, " + omitted
}

// bareColumns replaces those LetterColumns that may be several megabytes by empty values.
var bareColumns = strings.NewReplacer("m.error_stack", "''", "m.message_key", "NULL", "m.headers", "NULL",
	"m.payload_raw", "NULL").Replace(LetterColumns)

// count returns the query for a total. If the count is bounded, the query has the same order as the
// list: without an order, the planner would scan the table from its start in the hope of finding
// enough rows early.
func (t *LetterTable) count(tenant uuid.UUID, q dlq.Query) (query string, args []any) {
	q.After = nil
	count, tail := "count(*)", ""
	if q.TotalCap > 0 {
		count = fmt.Sprintf("least(count(*), %d)", q.TotalCap+1)
		tail = fmt.Sprint(" ORDER BY m.", t.at, " DESC, m.id DESC LIMIT ", q.TotalCap+1)
	}
	parts, args := t.SelectLetters(tenant, q, "m.id", tail)
	return "SELECT " + count + " FROM (" + strings.Join(parts, " UNION ALL ") + ") AS found", args
}
