package redrivedb

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/dlq/dlqdb"
	"github.com/skald-saga/skald/internal/postgres"
)

// Sizes of a preview: samples, groups, and other redrives.
const (
	previewSample = 10
	previewGroups = 20
	previewOthers = 10
)

// blockedKeys counts keys by their oldest open letter, using the same condition as TakeItems.
var blockedKeys = `
SELECT count(*) FROM (
	SELECT m.tenant_id,
	       m.original_topic, ` + dlqdb.KeyOf("m") + ` AS order_key,
	       NULL::bytea AS message_key,
	       max(m.seq) AS seq
	  FROM page p JOIN dlq.dlq_messages m ON m.id = p.id
	 WHERE m.ordered GROUP BY 1, 2, 3) AS m
 CROSS JOIN LATERAL (SELECT o.id FROM dlq.dlq_messages o WHERE ` + dlqdb.OlderOfKey + ` ORDER BY o.seq LIMIT 1) AS o
  LEFT JOIN page x ON x.id = o.id
 WHERE x.id IS NULL`

// Preview implements dlq.Redrives. Blocked keys are those of Ordered letters that wait
// for an older open letter outside the selection.
func (st *Redrives) Preview(ctx context.Context, tenant uuid.UUID, r dlq.Redrive) (dlq.Preview, error) {
	r.TenantID = tenant
	p := dlq.Preview{ByTopic: map[string]int64{}, ByGroup: map[string]int64{}, ByStatus: map[dlq.Status]int64{}}
	r = asIfRequested(r, r.CreatedAt)
	s := selected(&r, nil, r.Max)
	with := `WITH page AS MATERIALIZED (` + s.query + `) `
	err := st.db.InSnapshot(ctx, tenant, func(tx *sqlx.Tx) error {
		rows, err := tx.QueryContext(ctx, with+`
			SELECT m.original_topic, m.status, m.fingerprint, count(*)
			  FROM page p
			  JOIN dlq.dlq_messages m ON m.id = p.id
			 GROUP BY 1, 2, 3
			 ORDER BY 4 DESC, 1, 2, 3`, s.args...)
		if err != nil {
			return err
		}
		if err := postgres.EachRow(rows, func() error { return countPreview(&p, rows) }); err != nil {
			return err
		}
		err = tx.GetContext(ctx, &p.BlockedKeys, with+blockedKeys, s.args...)
		if err != nil {
			return err
		}
		rows, err = tx.QueryContext(ctx, with+`
			SELECT `+dlqdb.LetterColumns+`
			  FROM (SELECT p.at, p.id FROM page p ORDER BY p.at, p.id LIMIT `+fmt.Sprint(previewSample)+`) AS p
			  JOIN dlq.dlq_messages m ON m.id = p.id ORDER BY p.at, p.id`, s.args...)
		if err != nil {
			return err
		}
		err = postgres.EachRow(rows, func() error {
			l, err := dlqdb.ScanLetter(st.db, rows)
			if err == nil {
				p.Sample = append(p.Sample, l)
			}
			return st.db.PassOver(ctx, err)
		})
		if err != nil || p.Matched == 0 {
			return err
		}
		p.Overlaps, err = overlaps(ctx, tx, with, s.args, r.TenantID, r.CreatedAt)
		return err
	})
	return p, postgres.Wrap("preview redrive", err)
}

// countPreview adds a row with a topic, status, fingerprint and count. Rows with the largest counts
// come first.
func countPreview(p *dlq.Preview, row postgres.Scanner) error {
	var topic, group string
	var status dlq.Status
	var n int64
	if err := row.Scan(&topic, &status, &group, &n); err != nil {
		return err
	}
	p.Matched += n
	p.ByTopic[topic] += n
	p.ByStatus[status] += n
	if _, known := p.ByGroup[group]; known || len(p.ByGroup) < previewGroups {
		p.ByGroup[group] += n
	}
	return nil
}

// unfinished selects the newest redrives that are not over.
var unfinished = `
SELECT ` + redriveColumns + ` FROM dlq.dlq_redrives d
 WHERE d.tenant_id = $1 AND d.ended_at IS NULL
 ORDER BY d.created_at DESC, d.id DESC LIMIT ` + strconv.Itoa(previewOthers)

// held counts the letters of a page that a redrive has collected and holds.
var held = `SELECT %d, count(*)
  FROM page p
  JOIN dlq.dlq_redrive_items i ON i.redrive_id = %s AND i.message_id = p.id
 WHERE i.state` + postgres.Among(dlq.Holding)

// overlaps counts the letters of a page that other redrives hold, or would collect if they began at
// that time.
func overlaps(ctx context.Context, tx *sqlx.Tx, with string, args []any, tenant uuid.UUID,
	at time.Time) (all []dlq.Overlap, err error) {
	rows, err := tx.QueryContext(ctx, unfinished, tenant)
	if err != nil {
		return nil, err
	}
	err = postgres.EachRow(rows, func() error {
		r, err := redriveTable.One(rows)
		if err == nil && !r.Unreadable {
			all = append(all, dlq.Overlap{Other: r})
		}
		return err
	})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	s := selection{args: slices.Clone(args)}
	var counts []string
	for i := range all {
		r := all[i].Other
		if r.StartedAt != nil {
			counts = append(counts, fmt.Sprintf(held, i, s.arg(r.ID)))
			continue
		}
		if r.IncludeLater {
			r = asIfRequested(r, at)
		}
		counts = append(counts, fmt.Sprintf("SELECT %d, count(*) FROM page p JOIN (%s) AS o ON o.id = p.id", i,
			s.within(selected(&r, nil, r.Max))))
	}
	rows, err = tx.QueryContext(ctx, with+strings.Join(counts, " UNION ALL "), s.args...)
	if err != nil {
		return nil, err
	}
	err = postgres.EachRow(rows, func() error {
		var i int
		var n int64
		err := rows.Scan(&i, &n)
		all[i].Letters = n
		return err
	})
	return slices.DeleteFunc(all, func(o dlq.Overlap) bool { return o.Letters == 0 }), err
}

var placeholder = regexp.MustCompile(`\$\d+`)

// within adds the arguments of another selection, and returns its query for use within a query that
// has the arguments of s.
func (s *selection) within(other selection) string {
	before := len(s.args)
	s.args = append(s.args, other.args...)
	return placeholder.ReplaceAllStringFunc(other.query, func(at string) string {
		n, err := strconv.Atoi(at[1:])
		if err != nil {
			panic(err)
		}
		return "$" + strconv.Itoa(before+n)
	})
}
