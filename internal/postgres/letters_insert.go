package postgres

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/operator"
)

// letterInserts are the columns of a new letter, the types in which a batch of
// them travels, and the casts of those that are stored as another type. In the
// order of newLetters.add.
var letterInserts = [...]struct{ name, travels, stored string }{
	{"id", "uuid", ""}, {"tenant_id", "uuid", ""}, {"version", "bigint", ""}, {"original_topic", "text", ""},
	{"error_message", "text", ""}, {"retry_count", "bigint", ""}, {"max_retries", "bigint", ""}, {"payload", "text", "::jsonb"},
	{"status", "text", ""}, {"created_at", "timestamptz", ""}, {"updated_at", "timestamptz", ""}, {"last_retry_at", "timestamptz", ""},
	{"source", "text", ""}, {"payload_raw", "bytea", ""}, {"payload_encoding", "text", ""}, {"message_key", "bytea", ""},
	{"headers", "bytea", ""}, {"dlq_topic", "text", ""}, {"dlq_partition", "bigint", ""}, {"dlq_offset", "bigint", ""},
	{"original_partition", "bigint", ""}, {"original_offset", "bigint", ""}, {"original_timestamp", "timestamptz", ""},
	{"consumer_group", "text", ""}, {"error_type", "text", ""}, {"error_class", "text", ""}, {"error_stack", "text", ""},
	{"fingerprint", "text", ""}, {"terms", "text", "::integer[]"}, {"saga_id", "uuid", ""}, {"step_index", "bigint", ""},
	{"step_name", "text", ""}, {"step_action", "text", ""}, {"job_run_id", "uuid", ""}, {"webhook_id", "uuid", ""},
	{"delivery_id", "uuid", ""}, {"correlation_id", "text", ""}, {"trace_id", "text", ""}, {"dedupe_key", "text", ""},
	{"labels", "text", "::text[]"}, {"assignee", "text", ""}, {"note", "text", ""}, {"resolution", "text", ""},
	{"next_retry_at", "timestamptz", ""}, {"terminal_at", "timestamptz", ""}, {"redrive_id", "uuid", ""}, {"target", "text", "::jsonb"},
	{"revision", "bigint", ""}, {"ordered", "bool", ""}, {"root_id", "uuid", ""}, {"parent_id", "uuid", ""}, {"generation", "bigint", ""},
}

// groupInserts are the columns of the distinct groups of a batch, in the order
// of newLetters.addGroup. regression is the id of the action that tells that the
// group came back, should it have been resolved.
var groupInserts = [...]struct{ name, travels string }{
	{"tenant_id", "uuid"}, {"fingerprint", "text"}, {"topic", "text"}, {"error_type", "text"}, {"message", "text"}, {"regression", "uuid"},
}

// insertLetters is a list of WITH members that store a batch of new letters,
// whose parameters from $first on are those of newLetters.parameters, in one
// statement of the writers' connections:
//
//   - stored (id, tenant_id, seq, original_topic, fingerprint, created_at): the
//     letters that are new, in the order of the batch. One whose dedupe key,
//     place in Kafka or id is there already is not in it (archived places and
//     ids count too), and what is there stays as it is.
//   - the groups of those, and their arrivals by topic and minute; a RESOLVED
//     group becomes REGRESSED, with an operator.Action by nobody.
//
// Rows are locked in one order, so that batches of two nodes wait for each other
// instead of deadlocking: letters as they lie in Kafka, groups and arrivals by
// key, known groups before new ones. A rare deadlock is left (two batches with
// the same dedupe keys in different orders): use again.
//
// Hash joins are off on those connections, so nothing is joined here that is as
// long as the batch.
func insertLetters(first int) string {
	names, values, types := make([]string, len(letterInserts)), make([]string, len(letterInserts)), make([]string, len(letterInserts))
	for i, c := range letterInserts {
		names[i], values[i], types[i] = c.name, "l."+c.name+c.stored, fmt.Sprintf("$%d::%s[]", first+i, c.travels)
	}
	first += len(letterInserts)
	groupNames, groupTypes := make([]string, len(groupInserts)), make([]string, len(groupInserts))
	for i, c := range groupInserts {
		groupNames[i], groupTypes[i] = c.name, fmt.Sprintf("$%d::%s[]", first+i, c.travels)
	}
	columns := strings.Join(names, ", ")
	return `stored AS (
	INSERT INTO dlq.dlq_messages AS m (` + columns + `)
	SELECT ` + strings.Join(values, ", ") + `
	  FROM unnest(` + strings.Join(types, ", ") + `) WITH ORDINALITY AS l (` + columns + `, n)
	 WHERE (SELECT a.id FROM dlq.dlq_messages_archive a WHERE a.id = l.id) IS NULL -- NOT EXISTS would be a join, of the whole archive
	   AND (l.dlq_topic IS NULL OR (SELECT a.id FROM dlq.dlq_messages_archive a
	        WHERE a.tenant_id = l.tenant_id AND a.dlq_topic = l.dlq_topic AND a.dlq_partition = l.dlq_partition AND a.dlq_offset = l.dlq_offset LIMIT 1) IS NULL)
	 ORDER BY l.dlq_topic, l.dlq_partition, l.dlq_offset, l.n
	ON CONFLICT DO NOTHING
	RETURNING m.id, m.tenant_id, m.seq, m.original_topic, m.fingerprint, m.created_at
), known AS MATERIALIZED (
	SELECT g.tenant_id, g.fingerprint, g.state
	  FROM (SELECT DISTINCT tenant_id, fingerprint FROM stored) AS s
	  JOIN dlq.dlq_groups g ON g.tenant_id = s.tenant_id AND g.fingerprint = s.fingerprint
	 ORDER BY g.tenant_id, g.fingerprint
	   FOR NO KEY UPDATE OF g
), named AS MATERIALIZED (
	SELECT * FROM unnest(` + strings.Join(groupTypes, ", ") + `) AS n (` + strings.Join(groupNames, ", ") + `)
), grouped AS (
	INSERT INTO dlq.dlq_groups AS g (tenant_id, fingerprint, topic, error_type, message, received, first_seen, last_seen, sample_id, updated_at)
	SELECT u.tenant_id, u.fingerprint, max(u.topic), max(u.error_type), max(u.message), count(u.id), min(u.created_at), max(u.created_at),
	       (array_agg(u.id ORDER BY u.seq DESC) FILTER (WHERE u.id IS NOT NULL))[1], max(u.created_at)
	  FROM (SELECT n.tenant_id, n.fingerprint, n.topic, n.error_type, n.message, NULL::uuid AS id, NULL::bigint AS seq, NULL::timestamptz AS created_at
	          FROM named n
	        UNION ALL
	        SELECT s.tenant_id, s.fingerprint, NULL, NULL, NULL, s.id, s.seq, s.created_at FROM stored s) AS u
	 WHERE (SELECT count(*) FROM known) >= 0 -- which are locked first
	 GROUP BY u.tenant_id, u.fingerprint
	HAVING count(u.id) > 0
	 ORDER BY u.tenant_id, u.fingerprint
	ON CONFLICT (tenant_id, fingerprint) DO UPDATE
	   SET received = g.received + EXCLUDED.received, last_seen = greatest(g.last_seen, EXCLUDED.last_seen),
	       sample_id = CASE WHEN EXCLUDED.last_seen >= g.last_seen THEN EXCLUDED.sample_id ELSE g.sample_id END,
	       state = CASE g.state WHEN 'RESOLVED' THEN 'REGRESSED' ELSE g.state END,
	       version = CASE g.state WHEN 'RESOLVED' THEN g.version + 1 ELSE g.version END,
	       updated_at = CASE g.state WHEN 'RESOLVED' THEN EXCLUDED.updated_at ELSE g.updated_at END
), regressed AS (
	INSERT INTO saga.audit_actions (id, tenant_id, at, kind, subject, verb)
	SELECT n.regression, n.tenant_id, now(), '` + string(operator.DeadGroup) + `', n.fingerprint, 'regress'
	  FROM known k JOIN named n ON n.tenant_id = k.tenant_id AND n.fingerprint = k.fingerprint
	 WHERE k.state = 'RESOLVED'
), counted AS (
	INSERT INTO dlq.dlq_arrivals AS a (tenant_id, topic, minute, received)
	SELECT s.tenant_id, s.original_topic, date_trunc('minute', s.created_at, 'UTC') AS minute, count(*)
	  FROM stored s
	 GROUP BY 1, 2, 3
	 ORDER BY 1, 2, 3
	ON CONFLICT (tenant_id, topic, minute) DO UPDATE SET received = a.received + EXCLUDED.received
)`
}

// newLetters gathers a batch of letters for insertLetters.
type newLetters struct {
	db      *DB
	columns [len(letterInserts)]column
	groups  [len(groupInserts)]column
	seen    map[groupKey]struct{}
}

type groupKey struct {
	tenant      uuid.UUID
	fingerprint string
}

func (c *newLetters) parameters() []any { return parameters(c.columns[:], c.groups[:]) }

// add appends one letter, sealed if db seals.
func (c *newLetters) add(l *dlq.Letter) error {
	place := c.db.keys.Of(l.TenantID, l.ID)
	content, err := sealContent(&place, contentFields, l.Content)
	if err != nil {
		return err
	}
	stack, err := place.SealText(fieldLetterStack, l.Failure.Stack)
	if err != nil {
		return err
	}
	target, err := json.Marshal(l.Target)
	if err != nil {
		return fmt.Errorf("encode target: %w", err)
	}
	labels, err := pq.StringArray(labelsOf(l)).Value()
	if err != nil {
		return fmt.Errorf("encode labels: %w", err)
	}
	var view []byte
	if l.Encoding == dlq.JSON && len(l.Content.Payload) <= maxPayloadView && !place.Seals() {
		view = l.Content.Payload
	}
	col := c.columns[:]
	next := func() *column {
		at := &col[0]
		col = col[1:]
		return at
	}
	next().uuid(l.ID)
	next().uuid(l.TenantID)
	next().int(l.Version)
	next().text(l.OriginalTopic)
	next().text(l.Failure.Message)
	next().int(int64(l.RetryCount))
	next().int(int64(l.MaxRetries))
	next().json(view)
	next().text(string(l.Status))
	next().time(l.CreatedAt)
	next().time(l.UpdatedAt)
	next().timeOrNull(l.LastRetryAt)
	next().text(string(l.Source))
	next().bytesOrNull(content[2])
	next().text(string(l.Encoding))
	next().bytesOrNull(content[0])
	next().bytesOrNull(content[1])
	topic, partition, offset := next(), next(), next()
	if l.Arrived == nil {
		topic.null()
		partition.null()
		offset.null()
	} else {
		topic.text(l.Arrived.Topic)
		partition.int(int64(l.Arrived.Partition))
		offset.int(l.Arrived.Offset)
	}
	if p := l.Origin.Partition; p == nil {
		next().null()
	} else {
		next().int(int64(*p))
	}
	next().intOrNull(l.Origin.Offset)
	next().timeOrNull(l.Origin.Timestamp)
	next().text(l.ConsumerGroup)
	next().text(l.Failure.Type)
	next().text(string(l.Failure.Class))
	next().text(stack)
	next().text(l.Fingerprint)
	next().text(termArray(letterTerms(l, place.Seals())))
	next().uuidUnlessZero(l.Link.SagaID)
	if l.Link.StepName == "" {
		next().null()
	} else {
		next().int(int64(l.Link.StepIndex))
	}
	next().textUnlessEmpty(l.Link.StepName)
	next().textUnlessEmpty(l.Link.Action)
	next().uuidUnlessZero(l.Link.JobRunID)
	next().uuidUnlessZero(l.Link.WebhookID)
	next().uuidUnlessZero(l.Link.DeliveryID)
	next().text(l.CorrelationID)
	next().text(l.TraceID)
	next().textUnlessEmpty(l.DedupeKey)
	next().text(labels.(string))
	next().text(l.Assignee)
	next().text(l.Note)
	next().textUnlessEmpty(string(l.Resolution))
	next().timeOrNull(l.NextRetryAt)
	next().timeOrNull(l.TerminalAt)
	next().uuidUnlessZero(l.RedriveID)
	next().json(target)
	next().int(int64(l.Revision))
	next().bool(l.Ordered)
	next().uuid(l.RootID)
	next().uuidUnlessZero(l.ParentID)
	next().int(int64(l.Generation))
	return c.addGroup(l)
}

func (c *newLetters) addGroup(l *dlq.Letter) error {
	k := groupKey{l.TenantID, l.Fingerprint}
	if _, ok := c.seen[k]; ok {
		return nil
	}
	if c.seen == nil {
		c.seen = map[groupKey]struct{}{}
	}
	c.seen[k] = struct{}{}
	regression, err := uuid.NewV7()
	if err != nil {
		return err
	}
	c.groups[0].uuid(l.TenantID)
	c.groups[1].text(l.Fingerprint)
	c.groups[2].text(l.OriginalTopic)
	c.groups[3].text(l.Failure.Type)
	c.groups[4].text(dlq.Normalised(l.Failure.Message))
	c.groups[5].uuid(regression)
	return nil
}

// labelsOf returns a letter's labels; none are an empty list, not NULL.
func labelsOf(l *dlq.Letter) []string {
	if l.Labels == nil {
		return []string{}
	}
	return l.Labels
}

// termArray writes terms as PostgreSQL reads them.
func termArray(terms []int32) string {
	b := append(make([]byte, 0, 12*len(terms)+2), '{')
	for i, t := range terms {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(t), 10)
	}
	return string(append(b, '}'))
}
