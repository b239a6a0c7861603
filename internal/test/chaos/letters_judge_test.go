package chaos

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-saga/skald/internal/dlq"
)

// letterRow is a letter in the database, live or archived.
type letterRow struct {
	id, root, status, resolution string
	place                        recordPosition
	generation, count, most      int
	attempts, acknowledged       int
	key, value                   []byte
	archived                     bool
}

func (p *post) rows(ctx context.Context) (all []letterRow, err error) {
	rows, err := p.w.db.sql().QueryContext(ctx, `
		SELECT m.id, m.root_id, m.status, coalesce(m.resolution, ''), m.dlq_topic, m.dlq_partition, m.dlq_offset,
		       m.generation, m.retry_count, m.max_retries, m.message_key, m.payload_raw, m.archived,
		       (SELECT count(*) FROM dlq.dlq_attempts a WHERE a.message_id = m.id AND a.outcome <> 'WITHDRAWN'),
		       (SELECT count(*) FROM dlq.dlq_attempts a WHERE a.message_id = m.id AND a.outcome = 'ACKNOWLEDGED')
		  FROM (SELECT id, root_id, status, resolution, dlq_topic, dlq_partition, dlq_offset, generation, retry_count, max_retries,
		               message_key, payload_raw, false AS archived FROM dlq.dlq_messages
		        UNION ALL
		        SELECT id, root_id, status, resolution, dlq_topic, dlq_partition, dlq_offset, generation, retry_count, max_retries,
		               message_key, payload_raw, true FROM dlq.dlq_messages_archive) AS m`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r letterRow
		if err := rows.Scan(&r.id, &r.root, &r.status, &r.resolution, &r.place.topic, &r.place.partition, &r.place.offset,
			&r.generation, &r.count, &r.most, &r.key, &r.value, &r.archived, &r.attempts, &r.acknowledged); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// judge compares the records written to Kafka, the database, and the redriven records (invariants
// D1 to D6; D7 has its own tests). It takes the ids of deleted letters from the audit trail.
func (p *post) judge(ctx context.Context) error {
	rows, err := p.rows(ctx)
	if err != nil {
		return err
	}
	deleted, err := p.tombstones(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[recordPosition]letterRow{}
	ids := map[string]bool{}
	for _, r := range rows {
		if other, twice := found[r.place]; twice {
			p.w.add("D1", r.id, "", "the record at %v is also letter %s", r.place, other.id)
		}
		if ids[r.id] || deleted[r.id] {
			p.w.add("D4", r.id, "", "is in two of: live, archive, deleted")
		}
		found[r.place], ids[r.id] = r, true
		p.judgeOne(&r)
	}
	missing := 0
	for at, sent := range p.sent {
		r, ok := found[at]
		switch {
		case !ok:
			missing++
			if missing <= 5 && len(deleted) == 0 {
				p.w.add("D1", "", "", "the record at %v is not in the database", at)
			}
		case !bytes.Equal(r.key, sent.Key) || !bytes.Equal(r.value, sent.Value):
			p.w.add("D1", r.id, "", "its bytes are not those of the record at %v", at)
		}
	}
	if missing != len(deleted) {
		p.w.add("D4", "", "", "%d records are neither live nor archived, and %d were deleted", missing, len(deleted))
	}
	for at := range maps.Keys(found) {
		if p.sent[at] == nil {
			p.w.add("D6", found[at].id, "", "comes from %v, where nobody has written", at)
		}
	}
	for _, odd := range slices.Compact(p.odd) {
		p.w.add("D2", "", "", "a strange record came back: %s", odd)
	}
	return nil
}

// judgeOne checks one letter. The caller holds p.mu.
func (p *post) judgeOne(r *letterRow) {
	copies := p.seen[fmt.Sprintf("%s/%d", r.root, r.generation)]
	redriven := r.resolution == "REDRIVEN" || r.resolution == "BOUNCED" || r.resolution == "CONFIRMED"
	switch {
	case redriven && (copies == 0 || r.acknowledged == 0):
		p.w.add(
			"D2",
			r.id,
			"",
			"is %s, and was published %d times, acknowledged %d times",
			r.resolution,
			copies,
			r.acknowledged,
		)
	case copies > r.attempts:
		p.w.add("D2", r.id, "", "was published %d times in %d attempts", copies, r.attempts)
	case r.count < 0 || r.count > r.most || r.status == "PENDING" && r.count >= r.most:
		p.w.add("D3", r.id, "", "%s after %d of %d retries", r.status, r.count, r.most)
	case r.status == "RETRYING":
		p.w.add("D5", r.id, "", "is still being retried")
	case r.place.topic != deadTopic:
		p.w.add("D6", r.id, "", "was read from %s", r.place.topic)
	case r.generation > 3 && r.resolution != "POISON":
		p.w.add("D6", r.id, "", "is in generation %d", r.generation)
	}
}

func (p *post) tombstones(ctx context.Context) (map[string]bool, error) {
	rows, err := p.w.db.sql().
		QueryContext(ctx, `SELECT subject FROM saga.audit_actions WHERE kind = 'dead_letter' AND verb = 'delete'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	ids := map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids[id] = true
	}
	return ids, rows.Err()
}

func sameContent(r *kgo.Record, c dlq.Content) bool {
	if !bytes.Equal(r.Key, c.Key) || !bytes.Equal(r.Value, c.Payload) || len(r.Headers) != len(c.Headers) {
		return false
	}
	for i, h := range r.Headers {
		if h.Key != c.Headers[i].Name || !bytes.Equal(h.Value, c.Headers[i].Value) ||
			(h.Value == nil) != (c.Headers[i].Value == nil) {
			return false
		}
	}
	return true
}
