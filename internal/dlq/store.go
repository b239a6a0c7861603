package dlq

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/page"
)

// Pushed is the result for one letter of a batch.
type Pushed struct {
	Letter    Letter // the stored letter, also when it was stored before
	Duplicate bool   // its DedupeKey, its ID or its Place was stored before
	// Err is a fault: the database cannot store its content (CodeInvalid), or its ID
	// belongs to another tenant's letter (CodeConflict).
	Err error
}

// Letters stores dead letters for their users. A tenant sees only its own; for those of
// others it gets the fault NotFound. Any error other than the stated faults is an
// outage, and the outcome of a write is then unknown.
type Letters interface {
	// Push stores letters, durably on return and independently of each other. A letter
	// whose DedupeKey or ID is stored already, live or archived, is not stored again,
	// so a push can be repeated. New letters are recorded as actions of the actor in
	// ctx (operator.As).
	Push(ctx context.Context, batch []Letter) ([]Pushed, error)
	// Get returns a live letter, or an archived one (ArchivedAt). Fault: NotFound.
	Get(ctx context.Context, tenant, id uuid.UUID) (Letter, error)
	List(ctx context.Context, tenant uuid.UUID, q Query) (page.Of[Letter], error)
	// Change stores a live letter if the stored version is l.Version-1, together with
	// the operator's action, and updates the counts of its group. Faults: NotFound,
	// Stale.
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

// Handover is a group of letters that are about to be sent together.
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
	// Arrive stores letters read from Kafka, durably on return. Each record is stored
	// once, identified by its Place, or by its content if the topic's id is unknown
	// (Letter.SameRecord); records stored before are not changed. A bounce is linked to
	// its parent, which becomes BOUNCED. Fault: Invalid when the database cannot store
	// one of them; nothing of the batch is stored then.
	Arrive(ctx context.Context, batch []Arrival) (stored int, err error)
	// Due claims up to limit PENDING letters for these kinds of targets whose next retry is
	// due; of an Ordered key only the oldest open one. Letters held by a policy are set
	// aside.
	Due(ctx context.Context, kinds []TargetKind, lease time.Duration, limit int) ([]Drive, error)
	// Release schedules up to limit letters whose hold has ended, spread over one
	// backoff.
	Release(ctx context.Context, limit int, c Chance) (int, error)
	// Take claims one letter for a retry on request. Faults: NotFound; Conflict (its
	// status, its lease), CodeKeyBlocked; Precondition CodeStale; Unavailable
	// CodeNoKafka when the claim's Routes do not reach its target. Nothing is claimed
	// then.
	Take(ctx context.Context, c Claim, lease time.Duration) (Drive, error)
	// MayTake returns the fault with which Take would refuse a claim at present, and claims nothing.
	MayTake(ctx context.Context, c Claim) error
	// HandOver records, durably on return, that letters are about to be sent; not a
	// byte may be sent before. ok is false when their redrive is no longer running:
	// they must not be sent then. Finish clears the record.
	HandOver(ctx context.Context, h Handover) (ok bool, err error)
	// Finish stores the ends of drives. The result is false for a drive that has lost
	// its letter; then only the attempt is stored. Storing an end again (because the
	// answer was lost) returns true and counts once.
	Finish(ctx context.Context, batch []Finish) ([]bool, error)
	// Extend renews the leases of drives that take long; the result lacks the ids
	// whose lease was lost.
	Extend(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error)
	// Reclaim ends retries whose lease has expired. One that was handed over counts as
	// failed (Abandoned), others do not count (Withdrawn). Letters of sagas that are
	// still compensating are skipped.
	Reclaim(ctx context.Context, limit int, c Chance) (int, error)
	// PolicyOf returns the policy of a topic: its own, the tenant's, or the
	// configuration's.
	PolicyOf(ctx context.Context, tenant uuid.UUID, topic string) (Policy, error)
	// Archive moves up to limit letters whose retention has passed, in one
	// statement; Purge deletes archived ones whose archive retention has passed.
	Archive(ctx context.Context, limit int) (int, error)
	Purge(ctx context.Context, limit int) (int, error)
	// Expire deletes up to limit counts of arrivals that are too old for any
	// statistics.
	Expire(ctx context.Context, limit int) (int, error)
	// Backlog counts letters for the metrics.
	Backlog(ctx context.Context) (Backlog, error)
}

// Backlog counts the open letters of all tenants.
type Backlog struct {
	ByStatus map[Status]int64 // PENDING, RETRYING and DEAD ones that were not handled
	Oldest   time.Time        // arrival of the oldest PENDING one; zero: none
	Leaving  int64            // DEAD ones that no operator has decided about, and that will be archived within a week
}

// Redrives stores bulk redrives, for users and for the loop.
type Redrives interface {
	// Create stores a redrive durably, completed by Redrive.Requested. Fault: Conflict
	// with CodeRedriveExists when its id exists; the stored redrive is unchanged. Ids are
	// derived from Idempotency-Keys.
	Create(ctx context.Context, r Redrive, by operator.Action) (Redrive, error)
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
	// Preview counts the letters that a redrive would cover: for dry runs.
	Preview(ctx context.Context, tenant uuid.UUID, r Redrive) (Preview, error)

	// Active returns up to limit redrives that have something to do now, of all tenants: the oldest
	// after a place, damaged ones included.
	Active(ctx context.Context, after page.TimeID, limit int) ([]Redrive, error)
	// Gather makes a PENDING redrive RUNNING and adds up to limit more of the letters
	// that it covers, in its order; done: these were the last. The redrive then halts if
	// there are too many (Redrive.Collected). Safe for concurrent use by several nodes.
	Gather(ctx context.Context, r Redrive, limit int) (done bool, err error)
	// TakeItems claims up to limit letters of a running redrive, no more than its rate
	// and its canary allow now over all nodes. Letters that cannot be claimed, or whose
	// target is not configured here, become SKIPPED.
	TakeItems(ctx context.Context, r Redrive, routes Routes, lease time.Duration, limit int) ([]Drive, error)
	// FinishItems is Queue.Finish together with the progress of the redrive, in one
	// transaction. A letter whose drive was Withdrawn waits again. One that stays
	// RETRYING, because its target reports later, is settled by Judge.
	FinishItems(ctx context.Context, r uuid.UUID, batch []Finish) error
	// Apply applies a redrive's action, other than retry, to up to limit letters, and
	// records an operator.Action for each.
	Apply(ctx context.Context, r Redrive, limit int, c Chance) (int, error)
	// Waits records what a running redrive is waiting for, which its node knows before
	// results are stored; "": it makes progress.
	Waits(ctx context.Context, tenant, id uuid.UUID, what string) error
	// Judge applies Redrive.Judge to the stored redrive and returns the result. TAKEN
	// items whose lease has expired get the result of their letters; those whose
	// attempt never finished wait again.
	Judge(ctx context.Context, tenant, id uuid.UUID, c Chance) (Redrive, error)
}

// Preview is the result of a dry run.
type Preview struct {
	Matched     int64            `json:"matched"`
	ByTopic     map[string]int64 `json:"by_topic"`
	ByGroup     map[string]int64 `json:"by_group"` // fingerprint, the 20 largest
	ByStatus    map[Status]int64 `json:"by_status"`
	Sample      []Letter         `json:"-"` // up to 10
	BlockedKeys int64            `json:"blocked_keys"`
	Overlaps    []Overlap        `json:"overlaps"` // the newest redrives that are not over
}

// Overlap is another redrive that is not over, with letters of the one that is previewed.
type Overlap struct {
	Other   Redrive
	Letters int64
}

// GroupStates is every state.
var GroupStates = []GroupState{GroupNew, GroupAcknowledged, GroupResolved, GroupRegressed}

// GroupFilter selects groups.
type GroupFilter struct {
	States    []GroupState
	Topic     string
	ErrorType string
}

// Overview stores groups, statistics and policies.
type Overview interface {
	// Groups returns a page of groups, those seen last first.
	Groups(ctx context.Context, tenant uuid.UUID, f GroupFilter, p page.Request[page.TimeKey]) (page.Of[Group], error)
	// Group returns a group. Fault: NotFound with CodeGroupNotFound.
	Group(ctx context.Context, tenant uuid.UUID, fingerprint string) (Group, error)
	// ChangeGroup stores state, assignee and note if the stored version is
	// g.Version-1. Faults: NotFound, Stale.
	ChangeGroup(ctx context.Context, g Group, by operator.Action) error
	// Topics returns the statistics of a page of topics by name; they are not counted. topic selects
	// some: an exact name, or a prefix followed by *; "": all. The letters of a topic in one
	// status are counted up to most; 0: all.
	Topics(ctx context.Context, tenant uuid.UUID, topic string, p page.Request[string],
		most int64) (page.Of[TopicStats], error)
	// Topic returns the statistics of one topic. Fault: NotFound with
	// CodeTopicNotFound when no letter of it is live and no policy names it.
	Topic(ctx context.Context, tenant uuid.UUID, topic string) (TopicStats, error)
	// KnownTopic reports whether a topic has or had letters (live, archived or in a group) or has a
	// policy.
	KnownTopic(ctx context.Context, tenant uuid.UUID, topic string) (letters, policy bool, err error)
	// Unknown returns those of ids that are not live letters of the tenant, in the
	// given order.
	Unknown(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error)
	// Stats counts letters per topic and status (seed 3, section トピック別の障害状況).
	Stats(ctx context.Context, tenant uuid.UUID) ([]TopicStats, error)
	// Policy returns the policy stored for exactly this topic ("": the tenant's
	// default); with Version 0 the one that applies instead.
	Policy(ctx context.Context, tenant uuid.UUID, topic string) (Policy, error)
	// PutPolicy stores p if the stored version is p.Version-1. Fault: Stale.
	PutPolicy(ctx context.Context, p Policy, by operator.Action) error
}

// Tombstone returns the detail of the action that deletes a letter: its metadata
// without its content.
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
