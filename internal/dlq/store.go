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
	Letter    Letter // the stored letter, even if it was stored before
	Duplicate bool   // its DedupeKey, ID or Place was already stored
	// Err is a fault: the database cannot store the letter's content (CodeInvalid), or its ID
	// belongs to another tenant's letter (CodeConflict).
	Err error
}

// Letters stores dead letters for their users. A tenant sees only its own letters and gets the
// fault NotFound for all others. Any error other than the stated faults is an outage, after which
// the outcome of a write is unknown.
type Letters interface {
	// Push stores letters, durably on return and independently of each other. A letter whose
	// DedupeKey or ID is already stored, live or archived, is not stored again, so a push can be
	// repeated. New letters are recorded as actions of the actor in ctx (operator.As).
	Push(ctx context.Context, batch []Letter) ([]Pushed, error)
	// Get returns a live or archived (ArchivedAt) letter. Fault: NotFound.
	Get(ctx context.Context, tenant, id uuid.UUID) (Letter, error)
	List(ctx context.Context, tenant uuid.UUID, q Query) (page.Of[Letter], error)
	// Change stores a live letter if the stored version is l.Version-1, together with the
	// operator's action, and updates the counts of its group. Faults: NotFound, Stale.
	Change(ctx context.Context, l Letter, by operator.Action) error
	// Delete deletes a live letter with that version, including its revisions and attempts; the
	// action is its tombstone. Faults: NotFound, Stale.
	Delete(ctx context.Context, l Letter, by operator.Action) error
	// Attempts returns a letter's retries, oldest first.
	Attempts(ctx context.Context, tenant, id uuid.UUID) ([]Attempt, error)
	// Revisions returns a letter's edits, oldest first.
	Revisions(ctx context.Context, tenant, id uuid.UUID) ([]Revision, error)
	// Lineage returns a letter with its ancestors and descendants, live and archived, oldest first,
	// at most 200.
	Lineage(ctx context.Context, tenant, id uuid.UUID) ([]Letter, error)
	// Restore moves an archived letter back to the live ones. It becomes PENDING, without an
	// automatic retry. Fault: NotFound.
	Restore(ctx context.Context, tenant, id uuid.UUID, now time.Time, by operator.Action) (Letter, error)
	// ListArchived is List for the archive, most recently archived first.
	ListArchived(ctx context.Context, tenant uuid.UUID, q Query) (page.Of[Letter], error)
}

// Handover is a group of letters that are about to be sent together.
type Handover struct {
	ID        uuid.UUID
	Tenants   []uuid.UUID // tenant of each letter
	Tokens    []uuid.UUID // token under which each letter is held
	RedriveID uuid.UUID   // redrive that must be running; zero: none
}

// Queue gives the loops access to the letters of all tenants. Leases are measured by the database's
// clock.
type Queue interface {
	Inflows
	// Arrive stores letters read from Kafka, durably on return. Each record is stored once,
	// identified by its Place, or by its content if the topic's id is unknown (Letter.SameRecord);
	// records stored before are not changed. A bounce is linked to its parent, which becomes
	// BOUNCED. Fault: Invalid if the database cannot store one of them, in which case nothing of
	// the batch is stored.
	Arrive(ctx context.Context, batch []Arrival) (stored int, err error)
	// Due claims up to limit PENDING letters for these kinds of targets whose next retry is due. Of
	// letters with an Ordered key, only the oldest open one is claimed. Letters held by a policy
	// are parked.
	Due(ctx context.Context, kinds []TargetKind, lease time.Duration, limit int) ([]Drive, error)
	// Release schedules retries for up to limit letters whose hold has ended, spread over one
	// backoff.
	Release(ctx context.Context, limit int, c Chance) (int, error)
	// Take claims one letter for a retry on request. Faults: NotFound; Conflict (its status, its
	// lease), CodeKeyBlocked; Precondition CodeStale; Unavailable CodeNoKafka if the claim's Routes
	// do not include its target. After a fault, nothing is claimed.
	Take(ctx context.Context, c Claim, lease time.Duration) (Drive, error)
	// MayTake returns the fault with which Take would currently reject a claim, without claiming
	// anything.
	MayTake(ctx context.Context, c Claim) error
	// HandOver records, durably on return, that letters are about to be sent. Not a single byte may
	// be sent before. If their redrive is no longer running, ok is false, and the letters must not
	// be sent. Finish clears the record.
	HandOver(ctx context.Context, h Handover) (ok bool, err error)
	// Finish stores the ends of drives. The result is false for a drive that has lost its letter;
	// in that case only the attempt is stored. Storing an end again (because the response was lost)
	// returns true and counts only once.
	Finish(ctx context.Context, batch []Finish) ([]bool, error)
	// Extend renews the leases of drives that take long. The result omits the ids whose lease was
	// lost.
	Extend(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error)
	// Reclaim ends retries whose lease has expired. A retry that was handed over counts as failed
	// (Abandoned); others do not count (Withdrawn). Letters of sagas that are still compensating
	// are skipped.
	Reclaim(ctx context.Context, limit int, c Chance) (int, error)
	// PolicyOf returns the policy of a topic: its own, the tenant's, or the
	// configuration's.
	PolicyOf(ctx context.Context, tenant uuid.UUID, topic string) (Policy, error)
	// Archive moves up to limit letters whose retention has passed to the archive, in one
	// statement. Purge deletes archived letters whose archive retention has passed.
	Archive(ctx context.Context, limit int) (int, error)
	Purge(ctx context.Context, limit int) (int, error)
	// Expire deletes up to limit arrival counts that are too old for all statistics.
	Expire(ctx context.Context, limit int) (int, error)
	// Backlog counts letters for the metrics.
	Backlog(ctx context.Context) (Backlog, error)
}

// Backlog contains counts of the open letters of all tenants.
type Backlog struct {
	ByStatus map[Status]int64 // PENDING, RETRYING and unhandled DEAD letters
	Oldest   time.Time        // arrival of the oldest PENDING letter; zero: none
	Leaving  int64            // DEAD letters without an operator's decision that will be archived within a week
}

// Redrives stores bulk redrives, for users and for the loop.
type Redrives interface {
	// Create stores a redrive durably, completed by Redrive.Requested. Fault: Conflict with
	// CodeRedriveExists if its id exists; the stored redrive is not changed. Ids are derived from
	// Idempotency-Keys.
	Create(ctx context.Context, r Redrive, by operator.Action) (Redrive, error)
	// Get returns a redrive with its progress. Fault: NotFound.
	Get(ctx context.Context, tenant, id uuid.UUID) (Redrive, error)
	// List returns a page of redrives in any of states (none means all), newest first.
	List(ctx context.Context, tenant uuid.UUID, states []RedriveState, p page.ByTime) (page.Of[Redrive], error)
	// Items returns a page of the letters of a redrive, ordered by their sequence numbers in the
	// redrive, without a total. Fault: NotFound.
	Items(ctx context.Context, tenant, id uuid.UUID, states []ItemState, p page.Request[int64]) (page.Of[Item], error)
	// Change stores r if the stored version is r.Version-1. Progress counters are
	// not written. Faults: NotFound, Stale.
	Change(ctx context.Context, r Redrive, by operator.Action) error
	// Preview counts the letters that a redrive would cover, for dry runs.
	Preview(ctx context.Context, tenant uuid.UUID, r Redrive) (Preview, error)

	// Active returns up to limit redrives of all tenants that have something to do now: the oldest
	// ones after a place, including damaged ones.
	Active(ctx context.Context, after page.TimeID, limit int) ([]Redrive, error)
	// Gather makes a PENDING redrive RUNNING and adds up to limit more of the letters that it
	// covers, in its order. done means that these were the last. The redrive then halts if there
	// are too many letters (Redrive.Collected). It is safe for concurrent use by several nodes.
	Gather(ctx context.Context, r Redrive, limit int) (done bool, err error)
	// TakeItems claims up to limit letters of a running redrive, but no more than its rate and its
	// canary currently allow across all nodes. Letters that cannot be claimed, or whose target is
	// not configured here, become SKIPPED.
	TakeItems(ctx context.Context, r Redrive, routes Routes, lease time.Duration, limit int) ([]Drive, error)
	// FinishItems does the work of Queue.Finish and updates the progress of the redrive in the same
	// transaction. A letter whose drive was Withdrawn waits again. A letter that stays RETRYING
	// because its target reports later is settled by Judge.
	FinishItems(ctx context.Context, r uuid.UUID, batch []Finish) error
	// Apply applies a redrive's action, other than retry, to up to limit letters, and
	// records an operator.Action for each.
	Apply(ctx context.Context, r Redrive, limit int, c Chance) (int, error)
	// Waits records what a running redrive is waiting for, which its node knows before results are
	// stored; "" means that it makes progress.
	Waits(ctx context.Context, tenant, id uuid.UUID, what string) error
	// Judge applies Redrive.Judge to the stored redrive and returns the result. TAKEN items whose
	// lease has expired get the results of their letters; items whose attempt never finished wait
	// again.
	Judge(ctx context.Context, tenant, id uuid.UUID, c Chance) (Redrive, error)
}

// Preview is the result of a dry run.
type Preview struct {
	Matched     int64            `json:"matched"`
	ByTopic     map[string]int64 `json:"by_topic"`
	ByGroup     map[string]int64 `json:"by_group"` // by fingerprint, the 20 largest
	ByStatus    map[Status]int64 `json:"by_status"`
	Sample      []Letter         `json:"-"` // up to 10
	BlockedKeys int64            `json:"blocked_keys"`
	Overlaps    []Overlap        `json:"overlaps"` // the newest redrives that are not over
}

// Overlap is another unfinished redrive that has letters in common with the previewed one.
type Overlap struct {
	Other   Redrive
	Letters int64
}

// GroupStates lists all states.
var GroupStates = []GroupState{GroupNew, GroupAcknowledged, GroupResolved, GroupRegressed}

// GroupFilter selects groups.
type GroupFilter struct {
	States    []GroupState
	Topic     string
	ErrorType string
}

// Overview stores groups, statistics and policies.
type Overview interface {
	// Groups returns a page of groups, the most recently seen first.
	Groups(ctx context.Context, tenant uuid.UUID, f GroupFilter, p page.Request[page.TimeKey]) (page.Of[Group], error)
	// Group returns a group. Fault: NotFound with CodeGroupNotFound.
	Group(ctx context.Context, tenant uuid.UUID, fingerprint string) (Group, error)
	// ChangeGroup stores the state, assignee and note of a group if the stored version is
	// g.Version-1. Faults: NotFound, Stale.
	ChangeGroup(ctx context.Context, g Group, by operator.Action) error
	// Topics returns the statistics of a page of topics, ordered by name, without a total. topic
	// selects topics by an exact name or by a prefix followed by *; "" selects all. The letters of
	// a topic in each status are counted up to most; 0 means no limit.
	Topics(ctx context.Context, tenant uuid.UUID, topic string, p page.Request[string],
		most int64) (page.Of[TopicStats], error)
	// Topic returns the statistics of one topic. Fault: NotFound with CodeTopicNotFound if it has
	// no live letters and no policy names it.
	Topic(ctx context.Context, tenant uuid.UUID, topic string) (TopicStats, error)
	// KnownTopic reports whether a topic has or had letters (live, archived or in a group) or has a
	// policy.
	KnownTopic(ctx context.Context, tenant uuid.UUID, topic string) (letters, policy bool, err error)
	// Unknown returns those of ids that are not live letters of the tenant, in the given order.
	Unknown(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error)
	// Stats counts letters per topic and status (seed 3, section トピック別の障害状況).
	Stats(ctx context.Context, tenant uuid.UUID) ([]TopicStats, error)
	// Policy returns the policy stored for exactly this topic ("" means the tenant's default) or,
	// with Version 0, the policy that applies instead.
	Policy(ctx context.Context, tenant uuid.UUID, topic string) (Policy, error)
	// PutPolicy stores p if the stored version is p.Version-1. Fault: Stale.
	PutPolicy(ctx context.Context, p Policy, by operator.Action) error
}

// Tombstone returns the detail of the action that deletes a letter: its metadata without its
// content.
func (l *Letter) Tombstone() json.RawMessage {
	doc, err := json.Marshal(map[string]any{
		"original_topic": l.OriginalTopic, "status": l.Status, "source": l.Source, "fingerprint": l.Fingerprint,
		"retry_count": l.RetryCount, "created_at": l.CreatedAt, "error_type": l.Failure.Type, "root_id": l.RootID,
	})
	if err != nil {
		return nil // encoding strings, numbers and times cannot fail
	}
	return doc
}
