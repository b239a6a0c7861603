package dlqdb

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// LiveLetters and archivedLetters are the tables of letters that lists read from.
var (
	LiveLetters     = LetterTable{"dlq.dlq_messages", "dlq.tenant_messages", "created_at", true, true}
	archivedLetters = LetterTable{"dlq.dlq_messages_archive", "dlq.tenant_messages_archive", "archived_at", false, false}
)

// SelectLetters returns queries that together select each letter matching a filter exactly once.
// Each query ends with tail; the table's alias is m. Where an index is ordered only within one
// value, such as the statuses of a topic, there is one query per value, so that each query can stop
// after a page.
//
// The order of the queries is arbitrary: a caller that needs an order sorts their union.
func (t *LetterTable) SelectLetters(tenant uuid.UUID, q dlq.Query, columns, tail string) (parts []string, args []any) {
	possible := reconcile(&q.Filter)
	from := t.from(&q.Filter)
	w := letterWhere{}
	if !possible {
		w.Add("false")
	}
	column, choices := t.choices(&q.Filter)
	w.letters(t, tenant, q, column)
	if choices == nil {
		return []string{"(SELECT " + columns + " FROM " + from + " m WHERE " + w.Text() + tail + ")"}, w.Args
	}
	for _, c := range choices {
		own := letterWhere{postgres.Where{Conditions: slices.Clip(w.Conditions), Args: w.Args}}
		own.Add("m."+column+c.is, c.value)
		parts = append(parts, "(SELECT "+columns+" FROM "+from+" m WHERE "+own.Text()+tail+")")
		w.Args = own.Args
	}
	return parts, w.Args
}

// from returns the FROM item for a filter.
func (t *LetterTable) from(f *dlq.Filter) string {
	if byTerms(t, f) {
		return t.view
	}
	return t.table
}

// conditions returns the conditions of a filter in one query, without an order.
func (t *LetterTable) conditions(tenant uuid.UUID, q dlq.Query) (from string, w letterWhere) {
	if !reconcile(&q.Filter) {
		w.Add("false")
	}
	from = t.from(&q.Filter)
	if byTerms(t, &q.Filter) {
		w.besideTerms(&q.Filter)
	}
	w.letters(t, tenant, q, "")
	return from, w
}

// reconcile keeps only the combinations of status and resolution in a filter that a letter can
// have, so that a search for DEAD letters does not read all REDRIVEN ones. It returns false if no
// letter can match.
func reconcile(f *dlq.Filter) bool {
	if len(f.Resolutions) == 0 {
		return true
	}
	if len(f.Statuses) > 0 {
		f.Resolutions = slices.DeleteFunc(slices.Clone(f.Resolutions),
			func(r dlq.Resolution) bool { return !slices.Contains(f.Statuses, r.Status()) })
	}
	f.Statuses = nil
	for _, r := range f.Resolutions {
		f.Statuses = append(f.Statuses, r.Status())
	}
	return len(f.Resolutions) > 0
}

// choice is a condition on one column.
type choice struct {
	is    string // the comparison, e.g. " = ?"
	value any
}

// choices returns conditions on one column such that each matching letter meets exactly one of
// them. It returns none if one index already contains all letters in order.
func (t *LetterTable) choices(f *dlq.Filter) (column string, out []choice) {
	exact := f.Topic != "" && !strings.HasSuffix(f.Topic, "*")
	var values []string
	switch {
	case len(f.Resolutions) > 0 && (t == &archivedLetters || !exact && f.Fingerprint == ""):
		column, values = "resolution", texts(f.Resolutions)
	case t == &archivedLetters: // the archive's indexes do not include the status
	case len(f.Statuses) > 0:
		column, values = "status", texts(f.Statuses)
	case exact || f.Fingerprint != "":
		column, values = "status", texts(dlq.Statuses)
	case f.RetryCountMin != nil && *f.RetryCountMin > 0:
		return "retry_count", retryChoices(*f.RetryCountMin, f.RetryCountMax)
	}
	values = slices.Clone(values)
	slices.Sort(values)
	for _, v := range slices.Compact(values) {
		out = append(out, choice{" = ?", v})
	}
	return column, out
}

// severalRetries is how many numbers of retries, beginning with the smallest one of a filter, have
// their own query. Few letters have more retries.
const severalRetries = 8

func retryChoices(from int, to *int) (out []choice) {
	last := from + severalRetries - 1
	if to != nil {
		last = min(last, *to)
	}
	for n := from; n <= last; n++ {
		out = append(out, choice{" = ?", n})
	}
	if to == nil || *to > last {
		out = append(out, choice{" > ?", last})
	}
	return out
}

// letters adds the conditions of a filter, except for those on the column chosen and the page's
// cursor.
func (w *letterWhere) letters(t *LetterTable, tenant uuid.UUID, q dlq.Query, chosen string) {
	f := &q.Filter
	w.Add("m.tenant_id = ?", tenant)
	if topic, ok := strings.CutSuffix(f.Topic, "*"); ok {
		// The column is in byte order. LIKE could not use the index: under row-level security, only
		// operators known not to leak (LEAKPROOF) may.
		w.Add("m.original_topic >= ?", topic)
		if next := postgres.AfterPrefix(topic); next != "" {
			w.Add("m.original_topic < ?", next)
		}
	} else if f.Topic != "" {
		w.Add("m.original_topic = ?", f.Topic)
	}
	if chosen != "status" && len(f.Resolutions) == 0 { // resolutions imply statuses, and the planner would count both
		w.among("status", texts(f.Statuses))
	}
	if chosen != "resolution" {
		w.among("resolution", texts(f.Resolutions))
	}
	if t.groups && f.Fingerprint != "" {
		w.Add("m.fingerprint = ?", f.Fingerprint)
	}
	if f.RedriveID != uuid.Nil {
		w.Add("m.redrive_id = ?", f.RedriveID)
	}
	w.found(t, f)
	w.terms(t, tenant, f)
	w.ranges(f)
	switch {
	case f.RootID == uuid.Nil:
	case t == &archivedLetters:
		w.Add("m.root_id = ?", f.RootID)
	default: // the first letter of a lineage has the id of the lineage; the others have come back
		w.Add("(m.id = ? AND m.root_id = m.id OR m.root_id = ? AND m.generation > 0)", f.RootID, f.RootID)
	}
	if q.Snapshot != "" {
		w.Add(Covered("?"), string(q.Snapshot))
	}
	if q.After != nil {
		w.Add(t.beyond(&q), q.After.At, q.After.ID)
	}
}

// beyond returns the condition for the rows after a cursor in the order of a list.
func (t *LetterTable) beyond(q *dlq.Query) string {
	than := "<"
	if q.Oldest {
		than = ">"
	}
	return "(m." + t.at + ", m.id) " + than + " (?, ?)"
}

// unseen adds conditions, whose arguments follow those of w, as a single expression that no index
// supports and that the planner expects to be true for nearly every row.
func (w *letterWhere) unseen(own letterWhere) {
	if w.Args = own.Args; own.Conditions != nil {
		w.Conditions = append(w.Conditions, "CASE WHEN "+own.Text()+" THEN 1 ELSE 0 END <> 0")
	}
}

// Covered returns the condition that the live letter m existed when a snapshot was taken.
func Covered(snapshot string) string {
	return postgres.WasThere("m", snapshot)
}

// among adds the condition that the column has one of values. It adds nothing if values is nil.
func (w *letterWhere) among(column string, values []string) {
	if values != nil {
		w.Add("m."+column+" = ANY (?::text[])", pq.Array(values))
	}
}

// ranges adds the filter's bounds on times and numbers.
func (w *letterWhere) ranges(f *dlq.Filter) {
	for _, r := range []struct {
		condition string
		at        time.Time
	}{
		{"m.created_at >= ?", f.CreatedFrom},
		{"m.created_at < ?", f.CreatedTo},
		{"m.last_retry_at >= ?", f.LastRetryFrom},
		{"m.last_retry_at < ?", f.LastRetryTo},
	} {
		if !r.at.IsZero() {
			w.Add(r.condition, r.at)
		}
	}
	if !f.LastRetryTo.IsZero() { // no letter is retried before it arrives, allowing for clock skew
		w.Add("m.created_at < ?", f.LastRetryTo.Add(time.Minute))
	}
	if f.RetryCountMin != nil {
		w.Add("m.retry_count >= ?", *f.RetryCountMin)
		if *f.RetryCountMin > 0 {
			w.Add("m.retry_count > 0") // as in the WHERE clause of the index
		}
	}
	if f.RetryCountMax != nil {
		w.Add("m.retry_count <= ?", *f.RetryCountMax)
	}
	if f.GenerationMin > 0 {
		w.Add("m.generation > 0 AND m.generation >= ?", f.GenerationMin)
	}
}
