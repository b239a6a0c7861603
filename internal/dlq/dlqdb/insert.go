package dlqdb

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/postgres"
)

// letterInserts are the columns of a new letter, the types in which a batch of
// them travels, and the casts of those that are stored as another type. Those
// that are often the same in a whole batch may travel once. In the order of
// newLetters.add.
var letterInserts = [...]struct {
	name, travels, stored string
	once                  bool
}{
	{"id", "uuid", "", false}, {"tenant_id", "uuid", "", true}, {"version", "bigint", "", true}, {"original_topic", "text", "", false},
	{"error_message", "text", "", false}, {"retry_count", "bigint", "", true}, {"max_retries", "bigint", "", true}, {"payload", "text", "::jsonb", false},
	{"status", "text", "", true}, {"created_at", "timestamptz", "", true}, {"updated_at", "timestamptz", "", true}, {"last_retry_at", "timestamptz", "", true},
	{"source", "text", "", true}, {"payload_raw", "bytea", "", false}, {"payload_encoding", "text", "", false}, {"message_key", "bytea", "", false},
	{"headers", "bytea", "", false}, {"dlq_topic", "text", "", false}, {"dlq_partition", "bigint", "", false}, {"dlq_offset", "bigint", "", false},
	{"original_partition", "bigint", "", false}, {"original_offset", "bigint", "", false}, {"original_timestamp", "timestamptz", "", false},
	{"consumer_group", "text", "", false}, {"error_type", "text", "", false}, {"error_class", "text", "", false}, {"error_stack", "text", "", false},
	{"fingerprint", "text", "", false}, {"terms", "bigint", "", false}, {"saga_id", "uuid", "", true}, {"step_index", "bigint", "", true},
	{"step_name", "text", "", true}, {"step_action", "text", "", true}, {"job_run_id", "uuid", "", true}, {"webhook_id", "uuid", "", true},
	{"delivery_id", "uuid", "", true}, {"correlation_id", "text", "", false}, {"trace_id", "text", "", false}, {"dedupe_key", "text", "", true},
	{"labels", "text", "::text[]", true}, {"assignee", "text", "", true}, {"note", "text", "", true}, {"resolution", "text", "", true},
	{"next_retry_at", "timestamptz", "", false}, {"terminal_at", "timestamptz", "", true}, {"redrive_id", "uuid", "", true}, {"target", "text", "::jsonb", true},
	{"revision", "bigint", "", true}, {"ordered", "bool", "", false}, {"root_id", "uuid", "", false}, {"parent_id", "uuid", "", true}, {"generation", "bigint", "", true},
	{"dlq_topic_id", "uuid", "", false},
}

// groupInserts are the columns of the distinct groups of a batch, in the order
// of newLetters.addGroup. regression is the id of the action that tells that the
// group came back, should it have been resolved.
var groupInserts = [...]postgres.WireColumn{
	{"tenant_id", "uuid"}, {"fingerprint", "text"}, {"topic", "text"}, {"error_type", "text"}, {"message", "text"}, {"regression", "uuid"},
}

// letterRows says how the letters of a batch travel and are stored: the columns'
// names, what each is stored as, and the table l that this is taken of, with each
// letter's place in the batch as n. once: the columns that may travel once do.
func letterRows(once bool) (names, values, from string) {
	var columns, stored []string
	var rows postgres.Arrays
	for i, c := range letterInserts {
		columns = append(columns, c.name)
		switch {
		case c.name == "terms":
			rows.Add(1+i, postgres.WireColumn{c.name, c.travels})
			stored = append(stored, termsOf(theTerms))
		case once && c.once: // a subquery, so that it is cast once too
			stored = append(stored, fmt.Sprintf("(SELECT $%d::%s%s)", 1+i, c.travels, c.stored))
		default:
			rows.Add(1+i, postgres.WireColumn{c.name, c.travels})
			stored = append(stored, "l."+c.name+c.stored)
		}
	}
	return strings.Join(columns, ", "), strings.Join(stored, ", "), rows.Numbered("l")
}

// insertLetters is a list of WITH members that store a batch of letters, of which
// some may be there, whose parameters from $1 on are those of
// newLetters.parameters, in one statement of the writers' connections:
//
//   - stored (id, tenant_id, seq, original_topic, fingerprint, created_at): the
//     letters that are new, in the order of the batch. One whose dedupe key,
//     place in Kafka or id is there already is not in it (archived places and
//     ids count too), and what is there stays as it is. Places are those that
//     settlePlaces left: of one without the topic's id it has looked what is there.
//   - the groups of those, and their arrivals by topic and minute; a RESOLVED
//     group becomes REGRESSED, with an operator.Action by nobody.
//
// Rows are locked in one order, here and by insertNew, so that batches of two
// nodes wait for each other instead of deadlocking: letters as they lie in Kafka,
// groups and arrivals by key, known groups before new ones. A rare deadlock is
// left (two batches with the same dedupe keys in different orders): use again.
//
// Hash joins are off on those connections, so nothing is joined here that is as
// long as the batch.
func insertLetters() string {
	names, values, from := letterRows(false)
	var groups postgres.Arrays
	groups.Add(firstGroup, groupInserts[:]...)
	return `stored AS (
	INSERT INTO dlq.dlq_messages AS m (` + names + `)
	SELECT ` + values + `
	  FROM ` + from + `
	 WHERE (SELECT a.id FROM dlq.dlq_messages_archive a WHERE a.id = l.id) IS NULL -- NOT EXISTS would be a join, of the whole archive
	   AND (l.dlq_topic IS NULL OR (SELECT a.id FROM dlq.dlq_messages_archive a
	        WHERE a.tenant_id = l.tenant_id AND a.dlq_topic = l.dlq_topic AND a.dlq_partition = l.dlq_partition AND a.dlq_offset = l.dlq_offset
	          AND a.dlq_topic_id = l.dlq_topic_id LIMIT 1) IS NULL)
	 ORDER BY l.dlq_topic, l.dlq_partition, l.dlq_offset, l.dlq_topic_id, l.n
	ON CONFLICT DO NOTHING
	RETURNING m.id, m.tenant_id, m.seq, m.original_topic, m.fingerprint, m.created_at
), known AS MATERIALIZED (
	` + lockGroups("(SELECT DISTINCT tenant_id, fingerprint FROM stored)") + `
), named AS MATERIALIZED (
	SELECT * FROM ` + groups.As("n") + `
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
	` + intoGroup + `
), regressed AS (
	` + regress + `
), counted AS (
	INSERT INTO dlq.dlq_arrivals AS a (tenant_id, topic, minute, received)
	SELECT s.tenant_id, s.original_topic, date_trunc('minute', s.created_at, 'UTC') AS minute, count(*)
	  FROM stored s
	 GROUP BY 1, 2, 3
	 ORDER BY 1, 2, 3
	` + intoArrivals + `
)`
}

// The parameters of newLetters.parameters: from $1 on the letters', from firstGroup
// on the groups', the terms, and from afterTerms on whatever a statement adds.
const (
	firstGroup = 1 + len(letterInserts)
	theTerms   = firstGroup + len(groupInserts)
	afterTerms = theTerms + 1
)

// lockGroups locks those groups of a table that are known, in the order of all batches.
func lockGroups(of string) string {
	return `SELECT g.tenant_id, g.fingerprint, g.state
	  FROM ` + of + ` AS s
	  JOIN dlq.dlq_groups g ON g.tenant_id = s.tenant_id AND g.fingerprint = s.fingerprint
	 ORDER BY g.tenant_id, g.fingerprint
	   FOR NO KEY UPDATE OF g`
}

// intoGroup adds to a group g that is there.
const intoGroup = `ON CONFLICT (tenant_id, fingerprint) DO UPDATE
	   SET received = g.received + EXCLUDED.received, last_seen = greatest(g.last_seen, EXCLUDED.last_seen),
	       sample_id = CASE WHEN EXCLUDED.last_seen >= g.last_seen THEN EXCLUDED.sample_id ELSE g.sample_id END,
	       state = CASE g.state WHEN 'RESOLVED' THEN 'REGRESSED' ELSE g.state END,
	       version = CASE g.state WHEN 'RESOLVED' THEN g.version + 1 ELSE g.version END,
	       updated_at = CASE g.state WHEN 'RESOLVED' THEN EXCLUDED.updated_at ELSE g.updated_at END`

// intoArrivals adds to the arrivals a of a minute.
const intoArrivals = `ON CONFLICT (tenant_id, topic, minute) DO UPDATE SET received = a.received + EXCLUDED.received`

// regress tells of the groups in known and named that they are back.
const regress = `INSERT INTO saga.audit_actions (id, tenant_id, at, kind, subject, verb)
	SELECT n.regression, n.tenant_id, now(), '` + string(operator.DeadGroup) + `', n.fingerprint, 'regress'
	  FROM known k JOIN named n ON n.tenant_id = k.tenant_id AND n.fingerprint = k.fingerprint
	 WHERE k.state = 'RESOLVED'`

// Terms travel as one list for the whole batch, and of each letter where in it
// its own begin and how many they are.
const termBits = 12 // of their number, which is far less than 4096

// termsOf is the array of a letter's terms, of the list in parameter n.
func termsOf(n int) string {
	begin, count := fmt.Sprintf("(l.terms >> %d)::integer", termBits), fmt.Sprintf("(l.terms & %d)::integer", 1<<termBits-1)
	return fmt.Sprintf("($%d::integer[])[%s + 1 : %s + %s]", n, begin, begin, count)
}

// newLetters gathers a batch of letters for insertLetters.
type newLetters struct {
	db      *postgres.DB
	terms   postgres.BinaryColumn // of all, one after the other
	columns [len(letterInserts)]postgres.BinaryColumn
	groups  [len(groupInserts)]postgres.BinaryColumn
	tally   tally
}

// spareLetters are batches that have been sent, for their memory: it is some
// kilobytes a letter.
var spareLetters = sync.Pool{New: func() any { return new(newLetters) }}

// spare gives c back, whose parameters nobody uses any more.
func (c *newLetters) spare() {
	for _, list := range [][]postgres.BinaryColumn{c.columns[:], c.groups[:]} {
		for i := range list {
			list[i].Reset()
		}
	}
	c.terms.Reset()
	c.tally.reset()
	c.db = nil
	spareLetters.Put(c)
}

func (c *newLetters) parameters() []any {
	return postgres.Parameters(c.columns[:], c.groups[:], []postgres.BinaryColumn{c.terms})
}

// parametersOnce returns the parameters of a batch whose columns that may travel
// once do; false: they differ.
func (c *newLetters) parametersOnce() ([]any, bool) {
	for i := range letterInserts {
		if letterInserts[i].once && !c.columns[i].Uniform() {
			return nil, false
		}
	}
	args := c.parameters()
	for i := range letterInserts {
		if letterInserts[i].once {
			args[i] = c.columns[i].First()
		}
	}
	return args, true
}

// add appends one letter, sealed if db seals.
func (c *newLetters) add(l *dlq.Letter) error {
	sealer := c.db.Keys.SealerFor(l.TenantID, l.ID)
	content, err := sealContent(&sealer, contentFields, l.Content)
	if err != nil {
		return err
	}
	stack, err := sealer.SealText(fieldLetterStack, l.Failure.Stack)
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
	if l.Encoding == dlq.JSON && len(l.Content.Payload) <= maxPayloadView && !sealer.Seals() {
		view = l.Content.Payload
	}
	col := c.columns[:]
	next := func() *postgres.BinaryColumn {
		at := &col[0]
		col = col[1:]
		return at
	}
	next().UUID(l.ID)
	next().UUID(l.TenantID)
	next().Int(l.Version)
	next().Text(l.OriginalTopic)
	next().Text(l.Failure.Message)
	next().Int(int64(l.RetryCount))
	next().Int(int64(l.MaxRetries))
	next().JSON(view)
	next().Text(string(l.Status))
	next().Time(l.CreatedAt)
	next().Time(l.UpdatedAt)
	next().TimeOrNull(l.LastRetryAt)
	next().Text(string(l.Source))
	next().BytesOrNull(content[2])
	next().Text(string(l.Encoding))
	next().BytesOrNull(content[0])
	next().BytesOrNull(content[1])
	topic, partition, offset := next(), next(), next()
	if l.Arrived == nil {
		topic.Null()
		partition.Null()
		offset.Null()
	} else {
		topic.Text(l.Arrived.Topic)
		partition.Int(int64(l.Arrived.Partition))
		offset.Int(l.Arrived.Offset)
	}
	if p := l.Origin.Partition; p == nil {
		next().Null()
	} else {
		next().Int(int64(*p))
	}
	next().IntOrNull(l.Origin.Offset)
	next().TimeOrNull(l.Origin.Timestamp)
	next().Text(l.ConsumerGroup)
	next().Text(l.Failure.Type)
	next().Text(string(l.Failure.Class))
	next().Text(stack)
	next().Text(l.Fingerprint)
	terms := letterTerms(l, sealer.Seals())
	next().Int(int64(c.terms.N)<<termBits | int64(len(terms)))
	for _, t := range terms {
		c.terms.Int4(t)
	}
	next().UUIDUnlessZero(l.Link.SagaID)
	if l.Link.StepName == "" {
		next().Null()
	} else {
		next().Int(int64(l.Link.StepIndex))
	}
	next().TextUnlessEmpty(l.Link.StepName)
	next().TextUnlessEmpty(l.Link.Action)
	next().UUIDUnlessZero(l.Link.JobRunID)
	next().UUIDUnlessZero(l.Link.WebhookID)
	next().UUIDUnlessZero(l.Link.DeliveryID)
	next().Text(l.CorrelationID)
	next().Text(l.TraceID)
	next().TextUnlessEmpty(l.DedupeKey)
	next().Text(labels.(string))
	next().Text(l.Assignee)
	next().Text(l.Note)
	next().TextUnlessEmpty(string(l.Resolution))
	next().TimeOrNull(l.NextRetryAt)
	next().TimeOrNull(l.TerminalAt)
	next().UUIDUnlessZero(l.RedriveID)
	next().JSON(target)
	next().Int(int64(l.Revision))
	next().Bool(l.Ordered)
	next().UUID(l.RootID)
	next().UUIDUnlessZero(l.ParentID)
	next().Int(int64(l.Generation))
	if l.Arrived == nil {
		next().UUID(uuid.Nil)
	} else {
		next().UUID(l.Arrived.TopicID)
	}
	return c.addGroup(l)
}

func (c *newLetters) addGroup(l *dlq.Letter) error {
	if !c.tally.count(l) {
		return nil
	}
	regression, err := uuid.NewV7()
	if err != nil {
		return err
	}
	c.groups[0].UUID(l.TenantID)
	c.groups[1].Text(l.Fingerprint)
	c.groups[2].Text(l.OriginalTopic)
	c.groups[3].Text(l.Failure.Type)
	c.groups[4].Text(dlq.Normalised(l.Failure.Message))
	c.groups[5].UUID(regression)
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
