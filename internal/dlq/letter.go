package dlq

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// Source is the origin of a letter.
type Source string

// Sources of letters.
const (
	FromKafka   Source = "KAFKA"
	FromREST    Source = "REST"
	FromSaga    Source = "SAGA"
	FromJob     Source = "JOB"
	FromWebhook Source = "WEBHOOK"
)

// Sources is every source.
var Sources = []Source{FromKafka, FromREST, FromSaga, FromJob, FromWebhook}

// ErrorClass says whether a retry is likely to help.
type ErrorClass string

// Classes of errors.
const (
	Transient ErrorClass = "TRANSIENT"
	Permanent ErrorClass = "PERMANENT"
	Unknown   ErrorClass = "UNKNOWN"
)

// Classes is every class.
var Classes = []ErrorClass{Transient, Permanent, Unknown}

// Encoding says what the bytes of a payload are.
type Encoding string

// Encodings. A payload is JSON when it parses strictly and PostgreSQL's jsonb
// takes it, text when it is UTF-8 without NUL.
const (
	NoPayload Encoding = ""
	JSON      Encoding = "json"
	Text      Encoding = "text"
	Binary    Encoding = "binary"
)

// Limits of a letter, in bytes. The texts of its failure are cut to them, wherever it comes from.
const (
	MaxTopic    = 255     // characters (seed 3: VARCHAR(255))
	MaxError    = 8 << 10 // bytes
	MaxStack    = 64 << 10
	MaxHeaders  = 200
	MaxKey      = 64 << 10
	MaxPayload  = 10 << 20
	MaxWord     = 255 // ids, types, groups
	MaxLabels   = 32
	MaxLabel    = 100
	MaxNote     = 2000
	MaxReason   = 500
	MaxRetries  = 1000
	MaxPushed   = 500 // letters of one batch over REST
	MaxSelected = 10_000
)

// Header is one header of a record. Order and repetitions count.
type Header struct {
	Name  string
	Value []byte // nil: a header without a value
}

// Content is a letter's key, payload and headers, byte for byte as received (defect B16).
type Content struct {
	Key     []byte // nil: none
	Headers []Header
	Payload []byte // nil: none (a tombstone)
}

// Origin is the record before it became a dead letter, as far as known.
type Origin struct {
	Partition *int32
	Offset    *int64
	Timestamp *time.Time
}

// Failure describes why a letter was given up.
type Failure struct {
	Message string // never empty
	Type    string // e.g. an exception's class
	Class   ErrorClass
	Stack   string
}

// Storable returns f with texts that can be stored; texts remembers which were changed, under
// the pointers of a pushed letter.
func (f Failure) Storable(texts *plaintext.Members) Failure {
	f.Message = texts.Storable("/error_message", f.Message, plaintext.Bytes(MaxError))
	f.Type = texts.Storable("/error_type", f.Type, plaintext.Bytes(MaxWord))
	f.Stack = texts.Storable("/error_stack", f.Stack, plaintext.Bytes(MaxStack))
	return f
}

// TargetKind is the kind of thing a letter is driven to.
type TargetKind string

// Kinds of targets.
const (
	ToKafka   TargetKind = "kafka"     // a record is produced
	ToHTTP    TargetKind = "http"      // the payload is sent
	ToSaga    TargetKind = "saga_step" // the compensation or step continues
	ToJobRun  TargetKind = "job_run"   // a new run
	ToWebhook TargetKind = "webhook"   // the delivery is repeated
)

// TargetKinds is every kind.
var TargetKinds = []TargetKind{ToKafka, ToHTTP, ToSaga, ToJobRun, ToWebhook}

// Target is where a retry drives a letter.
type Target struct {
	Kind TargetKind `json:"kind"`
	// Topic, Partition: of ToKafka. An empty topic is the letter's original one;
	// without a partition the key decides, as it did before.
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	// URL, Method: of ToHTTP. The method defaults to POST.
	URL    string `json:"url,omitempty"`
	Method string `json:"method,omitempty"`
	// Job: of ToJobRun, the id or the name of the definition; a retry is a run of it
	// with the payload as arguments.
	Job string `json:"job,omitempty"`
}

// Destination returns the complete target of a drive: to, or the letter's own target when
// to is nil.
func (l *Letter) Destination(to *Target) Target {
	t := l.Target
	if to != nil {
		t = *to
	}
	if t.Kind == ToKafka && t.Topic == "" {
		t.Topic = l.OriginalTopic
	}
	return t
}

// Name describes a target for people: its kind, and its topic or host.
func (t *Target) Name() string {
	switch t.Kind {
	case ToKafka:
		return "kafka: the topic " + t.Topic
	case ToHTTP:
		if u, err := url.Parse(t.URL); err == nil {
			return "http: " + u.Host
		}
	}
	return string(t.Kind)
}

// Link identifies the saga, run or delivery behind a letter that Skald made itself.
type Link struct {
	SagaID     uuid.UUID // zero: none
	StepIndex  int
	StepName   string
	Action     string // EXECUTE or COMPENSATE
	JobRunID   uuid.UUID
	WebhookID  uuid.UUID
	DeliveryID uuid.UUID
}

// Letter is one dead letter. Its original content never changes; edits are stored as
// Revisions.
type Letter struct {
	ID       uuid.UUID
	TenantID uuid.UUID
	Seq      int64 // order of arrival
	// Unreadable: encrypted or stored content could not be read and is left out. Only reading
	// for people sets it.
	Unreadable bool
	Version    int64 // ETag

	Source        Source
	OriginalTopic string // never the topic of the dead-letter queue itself
	Origin        Origin
	Arrived       *Position // where ingestion read it; nil unless FromKafka
	ConsumerGroup string
	Failure       Failure
	Content       Content
	Omitted       bool // Content and Failure.Stack were left out for their size: Query.Largest
	Encoding      Encoding
	Fingerprint   string // 32 hex digits; of which Group
	Link          Link
	CorrelationID string
	TraceID       string
	DedupeKey     string // unique per tenant unless ""
	Labels        []string
	Assignee      string
	Note          string

	Status      Status
	Resolution  Resolution // "" while not terminal
	RetryCount  int
	MaxRetries  int
	NextRetryAt *time.Time // nil: no automatic retry, or HeldRetryAt
	HeldRetryAt *time.Time // its former NextRetryAt, if a policy held it when it was due
	RetryAsked  bool       // a person has set the time of its next retry: no policy holds it
	LastRetryAt *time.Time
	LastError   string     // error of its last retry, "" if that succeeded; set only by Get and lists
	LastErrorAt *time.Time // when that retry ended
	CollectedBy uuid.UUID  // the unfinished redrive that holds it; zero: none; set as LastError is, of Retried ones
	TerminalAt  *time.Time // when it became RESOLVED or DEAD; retention counts from here (defect B7)
	Token       uuid.UUID  // of the retry under way; zero unless RETRYING
	LeaseUntil  *time.Time // database clock; no other retry until then
	RedriveID   uuid.UUID  // the last redrive that drove it; zero: none

	Target     Target
	Revision   int       // content that a retry sends; 0: the original
	Ordered    bool      // letters of one key are driven in the order of their arrival
	RootID     uuid.UUID // first of its lineage; its own id unless it bounced
	ParentID   uuid.UUID // the letter whose redrive came back as this one; zero: none
	Generation int       // how often its lineage came back after a redrive

	CreatedAt time.Time // arrival here
	UpdatedAt time.Time

	ArchivedAt    *time.Time // nil: live
	ArchiveReason string
}

// Place is the letter's position in a list: by its arrival here or, once archived, in
// the archive.
func (l *Letter) Place() page.TimeID {
	if l.ArchivedAt != nil {
		return page.TimeID{At: *l.ArchivedAt, ID: l.ID}
	}
	return page.TimeID{At: l.CreatedAt, ID: l.ID}
}

// Revision is an edited content. Members that are nil are the original's.
type Revision struct {
	LetterID uuid.UUID
	Number   int // from 1
	Content  Content
	Author   string
	// AuthorName is what people called the author then.
	AuthorName string
	Reason     string
	CreatedAt  time.Time
	// Patch is the JSON Patch (RFC 6902) that made the payload, nil when it was
	// given as a whole.
	Patch json.RawMessage
}

// AttemptOutcome is how a retry ended.
type AttemptOutcome string

// Outcomes of attempts.
const (
	Acknowledged AttemptOutcome = "ACKNOWLEDGED" // the broker or the target has accepted it
	FailedDrive  AttemptOutcome = "FAILED"       // it was certainly not accepted
	Uncertain    AttemptOutcome = "UNCERTAIN"    // it may have been accepted
	Abandoned    AttemptOutcome = "ABANDONED"    // the lease of the node that made it expired
	Withdrawn    AttemptOutcome = "WITHDRAWN"    // the attempt was not made; it does not count
)

// Attempt is one retry of a letter.
type Attempt struct {
	LetterID   uuid.UUID
	Number     int // from 1; grows with each claim, including those that did not count
	Token      uuid.UUID
	Revision   int
	Target     Target
	Outcome    AttemptOutcome
	Error      string
	StatusCode int       // of ToHTTP; 0: none
	Written    *Position // of ToKafka: where the broker put it
	RedriveID  uuid.UUID // zero: not of a bulk redrive
	Actor      string    // "" when it was automatic
	ActorName  string    // what people called the actor then
	StartedAt  time.Time
	EndedAt    time.Time
}

// Position is a record's position in Kafka.
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
	// TopicID distinguishes topics that had the same name: a topic that was created
	// again, or one of another cluster, has other records at the same offsets. Zero:
	// unknown, for example from brokers that do not report it.
	TopicID uuid.UUID
}

// KnownTopic returns the topic's id as reported by the broker; zero when unknown, also
// if a record's digest is used in its place.
func (p Position) KnownTopic() uuid.UUID {
	if p.TopicID.Version() == digestVersion {
		return uuid.Nil
	}
	return p.TopicID
}

// ID returns the topic's id in the form that Kafka's tools show; "" when unknown.
func (p Position) ID() string {
	id := p.KnownTopic()
	if id == uuid.Nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// digestVersion is the version of ids that stand in for a topic's: Kafka's have 4.
const digestVersion = 8

// LabelTruncated marks a letter whose payload was larger than the limit. It is DEAD
// from the start and can be retried only with an edited payload, because the stored
// part is not the message that failed.
const LabelTruncated = "truncated"
