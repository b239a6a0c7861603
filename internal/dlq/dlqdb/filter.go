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

// LiveLetters is the table of letters that are not in the archive.
var (
	LiveLetters     = LetterTable{"dlq.dlq_messages", "dlq.tenant_messages", "created_at", true, true}
	archivedLetters = LetterTable{"dlq.dlq_messages_archive", "dlq.tenant_messages_archive", "archived_at", false, false}
)

// SelectLetters returns the queries that together select each letter of a filter
// once, each with tail at its end; the table's alias is m. What an index holds in
// order only for one value (a status of a topic, say) is asked for value by value:
// each part then ends after a page.
//
// The order of parts is of no use to anybody: whoever wants one sorts their union.
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

// from is what is looked into.
func (t *LetterTable) from(f *dlq.Filter) string {
	if byTerms(t, f) {
		return t.view
	}
	return t.table
}

// conditions are those of a filter in one query, which knows of no order.
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

// reconcile leaves those statuses and resolutions of a filter that some letter can
// have together: nobody looks through all REDRIVEN ones for one that is DEAD. false:
// no letter can.
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

// choices are conditions on one column of which each letter of the filter fits
// exactly one; none: one index holds all letters in order.
func (t *LetterTable) choices(f *dlq.Filter) (column string, out []choice) {
	exact := f.Topic != "" && !strings.HasSuffix(f.Topic, "*")
	var values []string
	switch {
	case len(f.Resolutions) > 0 && (t == &archivedLetters || !exact && f.Fingerprint == ""):
		column, values = "resolution", texts(f.Resolutions)
	case t == &archivedLetters: // its indexes hold no status
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

// severalRetries is how many numbers of retries are looked for one by one. Letters
// with more are few.
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

// letters adds the conditions of a filter, but for those that are choices of a
// column, and of the page's place.
func (w *letterWhere) letters(t *LetterTable, tenant uuid.UUID, q dlq.Query, chosen string) {
	f := &q.Filter
	w.Add("m.tenant_id = ?", tenant)
	if topic, ok := strings.CutSuffix(f.Topic, "*"); ok {
		// The column is in byte order. Not LIKE: row-level security lets nothing near
		// the index that is not known to leak nothing.
		w.Add("m.original_topic >= ?", topic)
		if next := after(topic); next != "" {
			w.Add("m.original_topic < ?", next)
		}
	} else if f.Topic != "" {
		w.Add("m.original_topic = ?", f.Topic)
	}
	if chosen != "status" && len(f.Resolutions) == 0 { // resolutions say it, and said twice the planner counts it twice
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
	default: // the first of a lineage bears its id, the others have come back
		w.Add("(m.id = ? AND m.root_id = m.id OR m.root_id = ? AND m.generation > 0)", f.RootID, f.RootID)
	}
	if q.After != nil {
		w.Add(t.beyond(&q), q.After.At, q.After.ID)
	}
}

// beyond is the condition of what comes after a cursor in the order of a list.
func (t *LetterTable) beyond(q *dlq.Query) string {
	than := "<"
	if q.Oldest {
		than = ">"
	}
	return "(m." + t.at + ", m.id) " + than + " (?, ?)"
}

// unseen adds conditions, whose arguments follow those of w, all in one that no
// index serves and that the planner takes for true of nearly every row.
func (w *letterWhere) unseen(own letterWhere) {
	if w.Args = own.Args; own.Conditions != nil {
		w.Conditions = append(w.Conditions, "CASE WHEN "+own.Text()+" THEN 1 ELSE 0 END <> 0")
	}
}

// among adds that column is one of values, unless they are nil.
func (w *letterWhere) among(column string, values []string) {
	if values != nil {
		w.Add("m."+column+" = ANY (?::text[])", pq.Array(values))
	}
}

// ranges adds what lies between bounds.
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
	if !f.LastRetryTo.IsZero() { // nothing is retried before it came, give or take what two clocks differ
		w.Add("m.created_at < ?", f.LastRetryTo.Add(time.Minute))
	}
	if f.RetryCountMin != nil {
		w.Add("m.retry_count >= ?", *f.RetryCountMin)
		if *f.RetryCountMin > 0 {
			w.Add("m.retry_count > 0") // in the words of the index
		}
	}
	if f.RetryCountMax != nil {
		w.Add("m.retry_count <= ?", *f.RetryCountMax)
	}
	if f.GenerationMin > 0 {
		w.Add("m.generation > 0 AND m.generation >= ?", f.GenerationMin)
	}
}

// after returns the first text, byte by byte, that does not begin with prefix
// and is more than it; "": all that are more begin with it. What UTF-8 does not
// have as a last byte is left out, or PostgreSQL would refuse it.
func after(prefix string) string {
	runes := []rune(prefix)
	for i := len(runes) - 1; i >= 0; i-- {
		next := runes[i] + 1
		if next == 0xD800 {
			next = 0xE000 // surrogates are no characters
		}
		if next <= 0x10FFFF {
			return string(append(runes[:i], next))
		}
	}
	return ""
}
