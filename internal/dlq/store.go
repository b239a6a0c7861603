package dlq

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/rest/page"
)

// Filter selects letters; zero fields do not restrict. Lists of words are
// alternatives.
type Filter struct {
	Topic         string // exact, or with one * at its end
	Statuses      []Status
	Resolutions   []Resolution
	Sources       []Source
	Classes       []ErrorClass
	Fingerprint   string
	ErrorType     string
	ErrorContains string // words that all occur in the message, whole, in any case
	ConsumerGroup string
	Key           []byte            // nil: any
	Headers       map[string]string // name → value
	Payload       map[string]string // dotted path → a JSON scalar or, when it is none, a text
	Labels        []string          // all of them
	Assignee      string
	CorrelationID string
	TraceID       string
	SagaID        uuid.UUID
	JobRunID      uuid.UUID
	RootID        uuid.UUID // a lineage
	RedriveID     uuid.UUID
	CreatedFrom   time.Time // inclusive
	CreatedTo     time.Time // exclusive
	LastRetryFrom time.Time
	LastRetryTo   time.Time
	RetryCountMin *int
	RetryCountMax *int
	GenerationMin int
}

// Query is a page of letters that is asked for.
type Query struct {
	Filter
	page.ByTime
	Oldest bool // oldest first; else newest first
	// Bare leaves out Content and Failure.Stack, which may be megabytes a letter.
	Bare bool
	// Largest leaves those out of letters that have more bytes of them (Omitted);
	// 0: of none. A page of letters of 10 MB would be gigabytes.
	Largest int
}

// Pushed says what became of one letter of a batch.
type Pushed struct {
	Letter    Letter // the one that is stored, also when it was there before
	Duplicate bool   // its DedupeKey, its ID or its Place was known
	// Err is a fault: the database refuses its content (CodeInvalid), or its ID is
	// that of somebody else's letter (CodeConflict).
	Err error
}

// Arrival is a record of a dead-letter topic, to be stored. The letter is
// complete (New): of a bounce it has the root id and the generation that the
// record's headers tell. What only the database knows is the parent: the letter
// of that root in generation BounceOn. It may be gone; then there is none.
type Arrival struct {
	Letter
	BounceOf  uuid.UUID // root id of x-dlq-message-id; zero: it never was here
	BounceOn  int       // generation of x-dlq-generation: that of the parent
	OnRedrive uuid.UUID // of x-dlq-redrive-id; zero: it was not driven in bulk
	Written   time.Time // the record's timestamp; zero: it has none
}

// Letters is dead letters as their users see them. A tenant sees only its own;
// others do not exist for it (fault NotFound). Any other error than the stated
// faults is an outage, and the outcome of a write is then unknown.
type Letters interface {
	// Push stores letters durably, each on its own. One whose DedupeKey is known
	// is not stored again, nor one whose ID is, live or archived: so a push that
	// is repeated changes nothing. Who acts in ctx (operator.As) is on record for
	// what is new.
	Push(ctx context.Context, batch []Letter) ([]Pushed, error)
	// Get returns a live letter, or an archived one (ArchivedAt). Fault: NotFound.
	Get(ctx context.Context, tenant, id uuid.UUID) (Letter, error)
	List(ctx context.Context, tenant uuid.UUID, q Query) (page.Of[Letter], error)
	// Change stores a live letter if the stored version is l.Version-1, with the
	// operator's action, and counts its group anew. Faults: NotFound, Stale.
	Change(ctx context.Context, l Letter, by operator.Action) error
	// Delete removes a live letter of that version with its revisions and
	// attempts; the action is its tombstone. Faults: NotFound, Stale.
	Delete(ctx context.Context, l Letter, by operator.Action) error
	// Attempts returns a letter's retries, oldest first.
	Attempts(ctx context.Context, tenant, id uuid.UUID) ([]Attempt, error)
	// Revisions returns a letter's edits, oldest first.
	Revisions(ctx context.Context, tenant, id uuid.UUID) ([]Revision, error)
	// Lineage returns a letter, its ancestors and its descendants, oldest first,
	// live and archived, at most 200.
	Lineage(ctx context.Context, tenant, id uuid.UUID) ([]Letter, error)
	// Restore moves an archived letter back among the live ones, PENDING, without
	// an automatic retry. Fault: NotFound.
	Restore(ctx context.Context, tenant, id uuid.UUID, now time.Time, by operator.Action) (Letter, error)
	// ListArchived is List of the archive, newest archived first.
	ListArchived(ctx context.Context, tenant uuid.UUID, q Query) (page.Of[Letter], error)
}

// Claim names one letter that somebody wants retried now.
type Claim struct {
	TenantID uuid.UUID
	LetterID uuid.UUID
	Version  int64     // 0: any
	Force    bool      // also when it is DEAD
	Revision *Revision // nil: what it has; else stored with the claim
	Target   *Target   // nil: what it has
	// Ways is where can be driven to from here; a letter for elsewhere is not claimed.
	Ways  Ways
	Actor string
	By    operator.Action
}

// Handover is letters that are about to be sent together.
type Handover struct {
	ID        uuid.UUID
	Tenants   []uuid.UUID // of each
	Tokens    []uuid.UUID // under which each is held
	RedriveID uuid.UUID   // which must be running; zero: no redrive's
}

// Queue is the letters of all tenants as the loops see them. Leases are
// counted by the database's clock.
type Queue interface {
	Inflows
	// Arrive stores what was read from Kafka: durable on return, each record once
	// by its Place, or where the topic's id is not known by what is stored at it
	// (Letter.Doubles); records that were there before are left as they are. A bounce
	// is linked to its parent, which becomes BOUNCED. Fault Invalid: the database
	// refuses the content of one of them, and nothing of the batch is stored.
	Arrive(ctx context.Context, batch []Arrival) (stored int, err error)
	// Due claims up to limit PENDING letters whose next retry is due, of these
	// kinds of targets; of an Ordered key only the oldest open one. What a policy
	// holds is put aside.
	Due(ctx context.Context, kinds []TargetKind, lease time.Duration, limit int) ([]Drive, error)
	// Release lets letters go on that were held when their time came, and that
	// nothing holds any more: up to limit of them, spread over one backoff.
	Release(ctx context.Context, limit int, c Chance) (int, error)
	// Take claims one letter for somebody. Faults: NotFound; Conflict (its status,
	// its lease), CodeKeyBlocked; Precondition CodeStale; Unavailable CodeNoKafka
	// when the claim's Ways do not reach its target. Nothing is claimed then.
	Take(ctx context.Context, c Claim, lease time.Duration) (Drive, error)
	// HandOver notes that letters are about to be sent: durable on return, before the
	// first byte may leave. ok is false when their redrive does not run any more:
	// then they are not to be sent. Finish takes the note back.
	HandOver(ctx context.Context, h Handover) (ok bool, err error)
	// Finish stores ends of drives; false for one that lost its letter meanwhile:
	// then nothing of it is stored but the attempt. One that is stored already
	// (the answer was lost) is true again, and counted once.
	Finish(ctx context.Context, batch []Finish) ([]bool, error)
	// Extend prolongs the leases of drives that take long; ids that lost theirs
	// are left out of the answer.
	Extend(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error)
	// Reclaim ends retries whose lease has passed. One that was handed over counts as
	// a failed one (Abandoned), one that was not does not (Withdrawn). A letter whose
	// saga is still undoing is left to it.
	Reclaim(ctx context.Context, limit int, c Chance) (int, error)
	// PolicyOf returns the policy of a topic: its own, the tenant's, or the
	// configuration's.
	PolicyOf(ctx context.Context, tenant uuid.UUID, topic string) (Policy, error)
	// Archive moves up to limit letters whose retention has passed, in one
	// statement; Purge deletes archived ones whose time has passed.
	Archive(ctx context.Context, limit int) (int, error)
	Purge(ctx context.Context, limit int) (int, error)
	// Expire deletes up to limit counts of arrivals that are older than any
	// statistics look.
	Expire(ctx context.Context, limit int) (int, error)
	// Backlog counts letters for the metrics.
	Backlog(ctx context.Context) (Backlog, error)
}

// Backlog is how much waits, over all tenants.
type Backlog struct {
	ByStatus map[Status]int64 // PENDING, RETRYING and DEAD ones that nobody has dealt with
	Oldest   time.Time        // arrival of the oldest PENDING one; zero: none
}

// Redrives is bulk operations: as users see them, and as the loop does.
type Redrives interface {
	// Create stores a redrive durably. Fault: Conflict with CodeRedriveExists when
	// there is one of its id, which stays as it is: ids are made of Idempotency-Keys.
	Create(ctx context.Context, r Redrive, by operator.Action) error
	// Get returns a redrive with its progress. Fault: NotFound.
	Get(ctx context.Context, tenant, id uuid.UUID) (Redrive, error)
	// List returns a page of redrives in any of states (none: all), newest first.
	List(ctx context.Context, tenant uuid.UUID, states []RedriveState, p page.ByTime) (page.Of[Redrive], error)
	// Items returns a page of the letters of a redrive, in its order by their sequence
	// numbers; they are not counted. Fault: NotFound.
	Items(ctx context.Context, tenant, id uuid.UUID, states []ItemState, p page.Request[int64]) (page.Of[Item], error)
	// Change stores r if the stored version is r.Version-1. Progress counters are
	// not written. Faults: NotFound, Stale.
	Change(ctx context.Context, r Redrive, by operator.Action) error
	// Preview counts what a redrive would be done to: for dry runs.
	Preview(ctx context.Context, tenant uuid.UUID, r Redrive) (Preview, error)

	// Active returns redrives that have something to do now, of all tenants.
	Active(ctx context.Context, limit int) ([]Redrive, error)
	// Gather makes a PENDING redrive RUNNING and stores up to limit more of the
	// letters that it is for, in its order; done: these were the last. Nodes may do
	// so at the same time.
	Gather(ctx context.Context, r Redrive, limit int) (done bool, err error)
	// TakeItems claims up to limit letters of a running redrive, no more than its
	// rate and its canary leave at this moment, over all nodes. Letters that cannot
	// be claimed, or whose target is out of reach, are SKIPPED.
	TakeItems(ctx context.Context, r Redrive, ways Ways, lease time.Duration, limit int) ([]Drive, error)
	// FinishItems is Queue.Finish with the progress of the redrive, both or
	// neither. A letter whose drive was Withdrawn waits again. One that stays
	// RETRYING, because its target tells later, is looked at again by Judge.
	FinishItems(ctx context.Context, r uuid.UUID, batch []Finish) error
	// Apply does the action of a redrive that is not RETRY to up to limit letters,
	// with an operator.Action each.
	Apply(ctx context.Context, r Redrive, limit int, c Chance) (int, error)
	// Waits notes what a running redrive waits for, "" that letters of it have come
	// through meanwhile: what a node knows before their ends are stored.
	Waits(ctx context.Context, tenant, id uuid.UUID, what string) error
	// Judge applies Redrive.Judge to what is stored and returns what it became.
	// TAKEN items whose lease has ended become what their letters have become:
	// those that nobody tried to the end wait again.
	Judge(ctx context.Context, tenant, id uuid.UUID, c Chance) (Redrive, error)
}

// Preview is the answer of a dry run.
type Preview struct {
	Matched     int64            `json:"matched"`
	ByTopic     map[string]int64 `json:"by_topic"`
	ByGroup     map[string]int64 `json:"by_group"` // fingerprint, the 20 largest
	ByStatus    map[Status]int64 `json:"by_status"`
	Sample      []Letter         `json:"-"` // up to 10
	BlockedKeys int64            `json:"blocked_keys"`
}

// Group is letters with one fingerprint: one kind of error.
type Group struct {
	TenantID    uuid.UUID
	Fingerprint string
	Version     int64 // ETag; of what people have set, so that arrivals do not move it
	State       GroupState
	Topic       string // of the first letter
	ErrorType   string
	Message     string // normalised
	Received    int64  // letters ever
	Open        int64  // now; filled by Group and Groups, up to ten thousand
	OpenCapped  bool
	FirstSeen   time.Time
	LastSeen    time.Time
	Sample      uuid.UUID // the latest letter
	Assignee    string
	Note        string
	UpdatedAt   time.Time
}

// Place is where it stands in a list.
func (g *Group) Place() page.TimeKey { return page.TimeKey{At: g.LastSeen, Key: g.Fingerprint} }

// GroupState is what people have made of a group.
type GroupState string

// States of groups. One that is RESOLVED regresses with its next letter.
const (
	GroupNew          GroupState = "NEW"
	GroupAcknowledged GroupState = "ACKNOWLEDGED"
	GroupResolved     GroupState = "RESOLVED"
	GroupRegressed    GroupState = "REGRESSED"
)

// GroupStates is every state.
var GroupStates = []GroupState{GroupNew, GroupAcknowledged, GroupResolved, GroupRegressed}

// GroupFilter selects groups.
type GroupFilter struct {
	States []GroupState
	Topic  string
}

// Overview is groups, statistics and policies.
type Overview interface {
	// Groups returns a page of groups, those seen last first.
	Groups(ctx context.Context, tenant uuid.UUID, f GroupFilter, p page.Request[page.TimeKey]) (page.Of[Group], error)
	// Group returns a group. Fault: NotFound with CodeGroupNotFound.
	Group(ctx context.Context, tenant uuid.UUID, fingerprint string) (Group, error)
	// ChangeGroup stores state, assignee and note if the stored version is
	// g.Version-1. Faults: NotFound, Stale.
	ChangeGroup(ctx context.Context, g Group, by operator.Action) error
	// Topics returns the statistics of a page of topics by name; they are not counted.
	Topics(ctx context.Context, tenant uuid.UUID, p page.Request[string]) (page.Of[TopicStats], error)
	// Topic returns the statistics of one topic. Fault: NotFound with
	// CodeTopicNotFound when no letter of it is live and no policy names it.
	Topic(ctx context.Context, tenant uuid.UUID, topic string) (TopicStats, error)
	// KnownTopic tells whether there is, or was, a letter of a topic, live, archived
	// or in a group, and whether a policy names it.
	KnownTopic(ctx context.Context, tenant uuid.UUID, topic string) (letters, policy bool, err error)
	// Unknown returns those of ids that no live letter of the tenant has, in their order.
	Unknown(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error)
	// Stats counts letters per topic and status (seed 3, section トピック別の障害状況).
	Stats(ctx context.Context, tenant uuid.UUID) ([]TopicStats, error)
	// Policy returns the policy stored for exactly this topic ("": the tenant's
	// default); with Version 0 the one that serves it instead.
	Policy(ctx context.Context, tenant uuid.UUID, topic string) (Policy, error)
	// PutPolicy stores p if the stored version is p.Version-1. Fault: Stale.
	PutPolicy(ctx context.Context, p Policy, by operator.Action) error
}

// Tombstone is the detail of the action that deleted a letter: what it was,
// without what it carried.
func (l *Letter) Tombstone() json.RawMessage {
	doc, err := json.Marshal(map[string]any{
		"original_topic": l.OriginalTopic, "status": l.Status, "source": l.Source, "fingerprint": l.Fingerprint,
		"retry_count": l.RetryCount, "created_at": l.CreatedAt, "error_type": l.Failure.Type, "root_id": l.RootID,
	})
	if err != nil {
		return nil // strings, numbers and times always encode
	}
	return doc
}
