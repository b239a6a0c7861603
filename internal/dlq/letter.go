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

// Sources lists all sources.
var Sources = []Source{FromKafka, FromREST, FromSaga, FromJob, FromWebhook}

// ErrorClass indicates whether a retry is likely to help.
type ErrorClass string

// Classes of errors.
const (
	Transient ErrorClass = "TRANSIENT"
	Permanent ErrorClass = "PERMANENT"
	Unknown   ErrorClass = "UNKNOWN"
)

// Classes lists all classes.
var Classes = []ErrorClass{Transient, Permanent, Unknown}

// Encoding describes the format of a payload.
type Encoding string

// Encodings. A payload is JSON if it parses strictly and PostgreSQL's jsonb accepts it, and text if
// it is UTF-8 without NUL.
const (
	NoPayload Encoding = ""
	JSON      Encoding = "json"
	Text      Encoding = "text"
	Binary    Encoding = "binary"
)

// Limits of a letter, in bytes. The texts of its failure are truncated to these limits, whatever
// their origin.
const (
	MaxTopic    = 255     // in characters (seed 3: VARCHAR(255))
	MaxError    = 8 << 10 // bytes
	MaxStack    = 64 << 10
	MaxHeaders  = 200
	MaxKey      = 64 << 10
	MaxPayload  = 10 << 20
	MaxWord     = 255 // ids, types and groups
	MaxLabels   = 32
	MaxLabel    = 100
	MaxNote     = 2000
	MaxReason   = 500
	MaxRetries  = 1000
	MaxPushed   = 500 // letters in one batch over REST
	MaxSelected = 10_000
)

// Header is one header of a record. The order and repetition of headers are significant.
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

// Origin describes the record before it became a dead letter, as far as it is known.
type Origin struct {
	Partition *int32
	Offset    *int64
	Timestamp *time.Time
}

// Failure describes why processing of a letter was abandoned.
type Failure struct {
	Message string // never empty
	Type    string // e.g. the class of an exception
	Class   ErrorClass
	Stack   string
}

// Storable returns f with its texts in a form that can be stored. texts records which of them were
// changed, under the pointers of a pushed letter.
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

// TargetKinds lists all kinds.
var TargetKinds = []TargetKind{ToKafka, ToHTTP, ToSaga, ToJobRun, ToWebhook}

// Target is where a retry drives a letter.
type Target struct {
	Kind TargetKind `json:"kind"`
	// Topic and Partition apply to ToKafka. An empty topic means the letter's original one. Without
	// a partition, the key determines it, as it did originally.
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	// URL and Method apply to ToHTTP. The method defaults to POST.
	URL    string `json:"url,omitempty"`
	Method string `json:"method,omitempty"`
	// Job applies to ToJobRun and is the id or the name of the definition. A retry is a run of the
	// job with the payload as arguments.
	Job string `json:"job,omitempty"`
}

// Destination returns the complete target of a drive: to, or the letter's own target if to is nil.
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
		return "kafka: topic " + t.Topic
	case ToHTTP:
		if u, err := url.Parse(t.URL); err == nil {
			return "http: " + u.Host
		}
	}
	return string(t.Kind)
}

// Link identifies the saga, run or delivery behind a letter that Skald itself created.
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
	// Unreadable means that encrypted or stored content could not be read and is left out. It is
	// set only when a letter is read to be shown to people.
	Unreadable bool
	Version    int64 // ETag

	Source        Source
	OriginalTopic string // never the dead-letter topic that the record was read from
	Origin        Origin
	Arrived       *Position // where ingestion read it; nil unless FromKafka
	ConsumerGroup string
	Failure       Failure
	Content       Content
	Omitted       bool // Content and Failure.Stack were left out because of their size: Query.Largest
	Encoding      Encoding
	Fingerprint   string // 32 hex digits; identifies the Group
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
	NextRetryAt *time.Time // nil: no automatic retry, or see HeldRetryAt
	HeldRetryAt *time.Time // its former NextRetryAt, if a policy held the letter when it was due
	RetryAsked  bool       // a person has set the time of the next retry, so no policy holds the letter
	LastRetryAt *time.Time
	LastError   string     // error of its last retry, "" if that succeeded; set only by Get and lists
	LastErrorAt *time.Time // when that retry ended
	CollectedBy uuid.UUID  // unfinished redrive that holds it; zero: none; set like LastError, if Retried
	TerminalAt  *time.Time // when it became RESOLVED or DEAD; retention counts from here (defect B7)
	Token       uuid.UUID  // of the retry in progress; zero unless RETRYING
	LeaseUntil  *time.Time // on the database's clock; no other retry until then
	RedriveID   uuid.UUID  // the last redrive that drove the letter; zero: none

	Target     Target
	Revision   int       // content that a retry sends; 0: the original
	Ordered    bool      // letters with the same key are driven in the order of their arrival
	RootID     uuid.UUID // first letter of its lineage; its own id unless it bounced
	ParentID   uuid.UUID // the redriven letter that came back as this one; zero: none
	Generation int       // number of times that its lineage has come back after a redrive

	CreatedAt time.Time // time of arrival here
	UpdatedAt time.Time

	ArchivedAt    *time.Time // nil: live
	ArchiveReason string
}

// Place is the letter's position in a list: by its time of arrival or, once archived, by its time
// of archiving.
func (l *Letter) Place() page.TimeID {
	if l.ArchivedAt != nil {
		return page.TimeID{At: *l.ArchivedAt, ID: l.ID}
	}
	return page.TimeID{At: l.CreatedAt, ID: l.ID}
}

// Revision is an edited content. Nil members are taken from the original.
type Revision struct {
	LetterID uuid.UUID
	Number   int // from 1
	Content  Content
	Author   string
	// AuthorName is the author's display name at that time.
	AuthorName string
	Reason     string
	CreatedAt  time.Time
	// Patch is the JSON Patch (RFC 6902) that produced the payload, or nil if the payload was given
	// as a whole.
	Patch json.RawMessage
}

// AttemptOutcome describes how a retry ended.
type AttemptOutcome string

// Outcomes of attempts.
const (
	Acknowledged AttemptOutcome = "ACKNOWLEDGED" // the broker or the target has accepted it
	FailedDrive  AttemptOutcome = "FAILED"       // it was certainly not accepted
	Uncertain    AttemptOutcome = "UNCERTAIN"    // it may have been accepted
	Abandoned    AttemptOutcome = "ABANDONED"    // the lease of the node that made the attempt expired
	Withdrawn    AttemptOutcome = "WITHDRAWN"    // the attempt was not made; it does not count
)

// Attempt is one retry of a letter.
type Attempt struct {
	LetterID   uuid.UUID
	Number     int // from 1; incremented by each claim, including those that did not count
	Token      uuid.UUID
	Revision   int
	Target     Target
	Outcome    AttemptOutcome
	Error      string
	StatusCode int       // of ToHTTP; 0: none
	Written    *Position // of ToKafka: where the broker stored it
	RedriveID  uuid.UUID // zero: not part of a bulk redrive
	Actor      string    // "" when it was automatic
	ActorName  string    // the actor's display name at that time
	StartedAt  time.Time
	EndedAt    time.Time
}

// Position is a record's position in Kafka.
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
	// TopicID distinguishes topics with the same name: a topic that was recreated or that is on
	// another cluster has other records at the same offsets. Zero means unknown, for example
	// because the brokers do not report it.
	TopicID uuid.UUID
}

// KnownTopic returns the topic's id as reported by the broker. It is zero if the id is unknown or
// if a record's digest is used in its place.
func (p Position) KnownTopic() uuid.UUID {
	if p.TopicID.Version() == digestVersion {
		return uuid.Nil
	}
	return p.TopicID
}

// ID returns the topic's id in the form that Kafka's tools show, or "" if it is unknown.
func (p Position) ID() string {
	id := p.KnownTopic()
	if id == uuid.Nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// digestVersion is the UUID version of digests used in place of a topic's id. Kafka's ids have
// version 4.
const digestVersion = 8

// LabelTruncated marks a letter whose payload exceeded the limit. It is DEAD from the start and can
// be retried only with an edited payload, because the stored part is not the message that failed.
const LabelTruncated = "truncated"
