package dlqdb

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// insertNew stores a batch of letters of Kafka that are expected to be new, in the
// order in which rows are locked, with ids that nobody has ever had. Its
// parameters are those of newLetters.parametersNew. It does what insertLetters does
// for a seventh less: a letter that is there already is not passed over but an
// error (a unique violation), so that no index is asked for it before; what the
// batch adds to groups and arrivals is counted before it travels; and whether any is
// in the archive, or at the place of a letter that does not know the topic's id, is
// asked of whole stretches of a partition (migration 0170; nobody stores places of the
// other form until this has ended). If so, no letter is stored, but the rest is: it has
// to be rolled back.
func insertNew(once bool) string {
	names, values, from := letterRows(once)
	var groups, arrivals, spans postgres.Arrays
	groups.Add(firstGroup, groupInserts[:]...)
	next := groups.Add(afterTerms, groupTallies[:]...)
	next = arrivals.Add(next, arrivalTallies[:]...)
	spans.Add(next, spanTallies[:]...)
	return `WITH doubtful AS MATERIALIZED (
	SELECT dlq.places_in_doubt(` + strings.Join(spans.Values, ", ") + `) AS n
), named AS MATERIALIZED (
	SELECT * FROM ` + groups.As("n") + `
), known AS MATERIALIZED (
	` + lockGroups("named") + `
), grouped AS (
	INSERT INTO dlq.dlq_groups AS g (tenant_id, fingerprint, topic, error_type, message, received, first_seen, last_seen, sample_id, updated_at)
	SELECT n.tenant_id, n.fingerprint, n.topic, n.error_type, n.message, n.received, n.first_seen, n.last_seen, n.sample_id, n.last_seen
	  FROM named n
	 WHERE (SELECT count(*) FROM known) >= 0 -- which are locked first
	 ORDER BY n.tenant_id, n.fingerprint
	` + intoGroup + `
), regressed AS (
	` + regress + `
), counted AS (
	INSERT INTO dlq.dlq_arrivals AS a (tenant_id, topic, minute, received)
	SELECT * FROM ` + arrivals.As("r") + `
	 ORDER BY tenant_id, topic, minute
	` + intoArrivals + `
)
INSERT INTO dlq.dlq_messages AS m (` + names + `)
SELECT ` + values + ` FROM ` + from + ` WHERE (SELECT d.n FROM doubtful d) = 0`
}

// unknownLife is the condition that a letter, or what is asked about, does not know
// the id of its topic: it has none, or the digest of a record for it.
func unknownLife(letter, asked string) string {
	return `(` + letter + `.dlq_topic_id = '` + uuid.Nil.String() + `' OR ` + asked + ` = '` + uuid.Nil.String() + `'
	          OR substr(` + letter + `.dlq_topic_id::text, 15, 1) = '8')`
}

// The columns of a tally: of each group beside groupInserts, of the arrivals of a
// topic and minute, of each partition. In the order of tally.parameters.
var (
	groupTallies   = [...]postgres.WireColumn{{"received", "bigint"}, {"first_seen", "timestamptz"}, {"last_seen", "timestamptz"}, {"sample_id", "uuid"}}
	arrivalTallies = [...]postgres.WireColumn{{"tenant_id", "uuid"}, {"topic", "text"}, {"minute", "timestamptz"}, {"received", "bigint"}}
	spanTallies    = [...]postgres.WireColumn{{"tenant_id", "uuid"}, {"topic", "text"}, {"partition", "bigint"}, {"first", "bigint"}, {"last", "bigint"}, {"topic_id", "uuid"}}
)

// tally is what a batch of letters adds to groups and arrivals if all of them are
// new, and where in Kafka they lie.
type tally struct {
	groups   []groupTally
	of       map[groupKey]int // in groups
	arrivals map[arrivalKey]int64
	spans    map[partitionKey]*span
	columns  struct {
		groups   [len(groupTallies)]postgres.BinaryColumn
		arrivals [len(arrivalTallies)]postgres.BinaryColumn
		spans    [len(spanTallies)]postgres.BinaryColumn
	}
}

type groupKey struct {
	tenant      uuid.UUID
	fingerprint string
}

type groupTally struct {
	received    int64
	first, last time.Time
	sample      uuid.UUID // the last one
}

type arrivalKey struct {
	tenant uuid.UUID
	topic  string
	minute int64 // since 1970
}

type partitionKey struct {
	tenant    uuid.UUID
	topic     string
	topicID   uuid.UUID
	partition int32
}

// span is from which offset to which.
type span struct{ first, last int64 }

// count adds a letter, and tells whether it is the first of its group.
func (t *tally) count(l *dlq.Letter) bool {
	if t.of == nil {
		t.of, t.arrivals, t.spans = map[groupKey]int{}, map[arrivalKey]int64{}, map[partitionKey]*span{}
	}
	t.arrivals[arrivalKey{l.TenantID, l.OriginalTopic, l.CreatedAt.Unix() / 60}]++
	if a := l.Arrived; a != nil {
		at := partitionKey{l.TenantID, a.Topic, a.TopicID, a.Partition}
		if s := t.spans[at]; s == nil {
			t.spans[at] = &span{a.Offset, a.Offset}
		} else {
			s.first, s.last = min(s.first, a.Offset), max(s.last, a.Offset)
		}
	}
	k := groupKey{l.TenantID, l.Fingerprint}
	i, known := t.of[k]
	if !known {
		i = len(t.groups)
		t.of[k] = i
		t.groups = append(t.groups, groupTally{first: l.CreatedAt, last: l.CreatedAt})
	}
	g := &t.groups[i]
	g.received++
	g.sample = l.ID
	if l.CreatedAt.Before(g.first) {
		g.first = l.CreatedAt
	}
	if l.CreatedAt.After(g.last) {
		g.last = l.CreatedAt
	}
	return !known
}

func (t *tally) reset() {
	clear(t.of)
	clear(t.arrivals)
	clear(t.spans)
	t.groups = t.groups[:0]
	for _, list := range t.lists() {
		for i := range list {
			list[i].Reset()
		}
	}
}

func (t *tally) lists() [][]postgres.BinaryColumn {
	return [][]postgres.BinaryColumn{t.columns.groups[:], t.columns.arrivals[:], t.columns.spans[:]}
}

func (t *tally) parameters() []any {
	c := &t.columns
	for _, g := range t.groups {
		c.groups[0].Int(g.received)
		c.groups[1].Time(g.first)
		c.groups[2].Time(g.last)
		c.groups[3].UUID(g.sample)
	}
	for k, n := range t.arrivals {
		c.arrivals[0].UUID(k.tenant)
		c.arrivals[1].Text(k.topic)
		c.arrivals[2].Time(time.Unix(k.minute*60, 0))
		c.arrivals[3].Int(n)
	}
	for k, s := range t.spans {
		c.spans[0].UUID(k.tenant)
		c.spans[1].Text(k.topic)
		c.spans[2].Int(int64(k.partition))
		c.spans[3].Int(s.first)
		c.spans[4].Int(s.last)
		c.spans[5].UUID(k.topicID)
	}
	return postgres.Parameters(t.lists()...)
}

// parametersNew returns the parameters of insertNew, and whether the columns that
// may travel once do.
func (c *newLetters) parametersNew() (args []any, once bool) {
	args, once = c.parametersOnce()
	if !once {
		args = c.parameters()
	}
	return append(args, c.tally.parameters()...), once
}
