package dlqdb

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// List implements dlq.Letters.
//
// Letters are found by key, headers and payload through hashed terms: of headers
// the first 40 whose values are text of at most 255 bytes, of a JSON payload of at
// most 256 kB the first 60 scalars down to depth 6, of an error's message its first
// 60 words. A member with a dot in its name is not found, nor is anything sealed.
func (st *Letters) List(ctx context.Context, tenant uuid.UUID, q dlq.Query) (dlq.Page, error) {
	return st.list(ctx, tenant, &LiveLetters, q)
}

// ListArchived implements dlq.Letters.
func (st *Letters) ListArchived(ctx context.Context, tenant uuid.UUID, q dlq.Query) (dlq.Page, error) {
	return st.list(ctx, tenant, &archivedLetters, q)
}

func (st *Letters) list(ctx context.Context, tenant uuid.UUID, t *LetterTable, q dlq.Query) (dlq.Page, error) {
	f, err := st.find(ctx, tenant, t, q, tries)
	if err != nil {
		return dlq.Page{}, fmt.Errorf("list dead letters: %w", err)
	}
	page := dlq.Page{Letters: f.letters}
	if page.More = len(page.Letters) > q.Limit; page.More {
		page.Letters = page.Letters[:q.Limit]
	}
	if err := st.lastErrors(ctx, tenant, page.Letters); err != nil {
		return page, fmt.Errorf("read the last retries of dead letters: %w", err)
	}
	switch {
	case !q.Total:
	case f.total >= 0:
		page.Total = f.total
		capTotal(&page, q.TotalCap)
	default:
		err = st.total(ctx, tenant, t, q, &page)
	}
	return page, err
}

// order is the ORDER BY of a list over alias.
func (t *LetterTable) order(q *dlq.Query, alias string) string {
	if q.Oldest {
		return " ORDER BY " + alias + ".at, " + alias + ".id"
	}
	return " ORDER BY " + alias + ".at DESC, " + alias + ".id DESC"
}

// page returns the query of one page, and one row more, which tells whether
// there is a next page. Ids are found first, in indexes where that is possible:
// what is not on the page is not read, which may be megabytes a letter.
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

// listed are the columns of scanListed.
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

// bareColumns are LetterColumns without what may be megabytes.
var bareColumns = strings.NewReplacer("m.error_stack", "''", "m.message_key", "NULL", "m.headers", "NULL",
	"m.payload_raw", "NULL").Replace(LetterColumns)

// total counts for a page that has been read, as lists of sagas do: what would
// take long is counted as far as the time allows.
func (st *Letters) total(ctx context.Context, tenant uuid.UUID, t *LetterTable, q dlq.Query, page *dlq.Page) error {
	seen := int64(q.Offset + len(page.Letters))
	if q.After == nil && !page.More && (len(page.Letters) > 0 || q.Offset == 0) {
		page.Total = seen // the page is the last one
		return nil
	}
	query, args := t.count(tenant, q)
	if q.TotalCap == 0 {
		if err := st.db.ListTenant(ctx, tenant, query, func(rows *sql.Rows) error { return rows.Scan(&page.Total) },
			args...); err != nil {
			return fmt.Errorf("count dead letters: %w", err)
		}
		return nil
	}
	err := st.db.Within(ctx, tenant, st.db.CountFor,
		func(tx *sqlx.Tx) error { return tx.GetContext(ctx, &page.Total, query, args...) })
	switch {
	case postgres.TimedOut(err) && ctx.Err() == nil:
		if page.Total, page.TotalCapped = seen, true; q.After != nil || len(page.Letters) == 0 {
			page.Total = int64(len(page.Letters)) // what lies before is not known
		}
		if page.More {
			page.Total++
		}
	case err != nil:
		return fmt.Errorf("count dead letters: %w", err)
	default:
		capTotal(page, q.TotalCap)
	}
	return nil
}

// capTotal leaves a total at most; 0: there is no bound.
func capTotal(page *dlq.Page, most int64) {
	if most > 0 && page.Total > most {
		page.Total, page.TotalCapped = most, true
	}
}

// count returns the query of Page.Total. Up to a bound it reads as the list
// does: without an order the planner would trust its luck and read the table
// from its start.
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
