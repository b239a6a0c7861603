package jobrun

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/page"
)

// NewEvent is an event that is to be published.
type NewEvent struct {
	ID      uuid.UUID       `json:"-"`
	Type    string          `json:"event_type"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// DedupeKey is unique per type for event_dedupe_hours (S16).
	DedupeKey     string     `json:"dedupe_key,omitempty"`
	CorrelationID string     `json:"correlation_id,omitempty"`
	OccurredAt    *time.Time `json:"occurred_at,omitempty"` // nil: now
	By            string     `json:"-"`                     // the publisher; for an event of a run, the run's initiator
}

// PublishedEvent is seed 5's Event.
type PublishedEvent struct {
	NewEvent
	TenantID    uuid.UUID
	CreatedAt   time.Time
	ProcessedAt *time.Time // nil: not all of its runs have been created
	SourceRunID uuid.UUID
	Record      *EventRecord // the Kafka record from which it was read; nil: none
	Deliveries  []EventDelivery
	Publication *EventPublication // nil: it is not published to a topic
}

// Place returns the event's position in a list.
func (e *PublishedEvent) Place() page.TimeID { return page.TimeID{At: e.CreatedAt, ID: e.ID} }

// EventRecord is the position of a Kafka record.
type EventRecord struct {
	Topic     string
	Partition int32
	Offset    int64
}

// EventDelivery is the result of delivering an event to one definition.
type EventDelivery struct {
	DefinitionID uuid.UUID
	RunID        uuid.UUID // zero: none yet
	Attempts     int
	Error        string
	DeliveredAt  *time.Time
	NextTryAt    *time.Time
	LetterID     uuid.UUID
}

// EventPublication is the progress of publishing an event to a topic.
type EventPublication struct {
	Topic     string
	CreatedAt time.Time
	EndedAt   *time.Time // nil: not sent yet
	Error     string     // why the topic refused it; "": it did not
	LetterID  uuid.UUID
}

// EventFilter selects events; zero fields do not restrict the selection.
type EventFilter struct {
	Type          string
	Processed     *bool
	CorrelationID string
	From, To      time.Time // creation time: inclusive, exclusive
}

// Events stores events and their deliveries.
type Events interface {
	// Publish stores an event durably. If another event has the same dedupe key within its window,
	// Publish returns that event, and created is false.
	Publish(ctx context.Context, tenant uuid.UUID, e NewEvent) (stored PublishedEvent, created bool, err error)
	// WouldPublish returns the stored event that Publish would return instead of storing e, or nil.
	// It also returns all definitions that listen to events.
	WouldPublish(ctx context.Context, tenant uuid.UUID, e NewEvent) (*PublishedEvent, []Definition, error)
	Event(ctx context.Context, tenant, id uuid.UUID) (PublishedEvent, error)
	ListEvents(ctx context.Context, tenant uuid.UUID, f EventFilter, p page.ByTime) (page.Of[PublishedEvent], error)
	// Deliver creates the runs of up to limit events (sweep 9), one for each matching definition
	// that is enabled and not paused. Failed deliveries are retried later. They become dead letters
	// when their retries are exhausted.
	Deliver(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
}

// SettingValue is the current value of a setting.
type SettingValue struct {
	Setting
	Value     float64
	IsDefault bool
	UpdatedBy string
	UpdatedAt *time.Time
}

// SettingChange is a past change of a setting.
type SettingChange struct {
	Version  int64
	Name     string
	Old, New *float64 // nil: the default
	By       string
	Reason   string
	At       time.Time
}

// SettingsStore stores the settings of the deployment.
type SettingsStore interface {
	Settings(ctx context.Context) (Settings, error)
	SettingValues(ctx context.Context) (values []SettingValue, version int64, err error)
	// ChangeSettings sets values, where nil restores the default, if the version still equals the
	// given one (0: any version). Faults: Precondition (CodeStale), Invalid (CodeSetting).
	ChangeSettings(ctx context.Context, version int64, values map[string]*float64, by operator.Action) (Settings, error)
	SettingsHistory(ctx context.Context, limit int) ([]SettingChange, error)
}

// Offloading moves logs out of the database (J-39 to J-41, S20).
type Offloading interface {
	// Offloadable returns up to limit runs that ended before the given time and still have chunks
	// in the database, oldest first.
	Offloadable(ctx context.Context, before time.Time, limit int) ([]Run, error)
	// Offloaded stores the location of a run's log and deletes its chunks, in one transaction, if
	// the number of chunks and bytes is unchanged, so that chunks that were appended in the
	// meantime are not lost (J9). If the numbers have changed, it stores nothing and returns false.
	Offloaded(ctx context.Context, tenant, run uuid.UUID, ref string, sum []byte, chunks int, bytes int64) (bool, error)
	// Purge deletes the runs of this kind that ended before the given time, with their attempts,
	// events and chunks, and creates removals for their logs.
	Purge(ctx context.Context, before time.Time, limit int) (deleted int, err error)
	// Removals returns up to limit logs whose objects are due for deletion, the earliest due first.
	Removals(ctx context.Context, limit int) ([]LogRemoval, error)
	// Removed ends a removal whose objects have been deleted, or makes it due again at its Until.
	Removed(ctx context.Context, r LogRemoval) error
}

// LogRemoval is a log whose run was purged or had its content erased. All objects that the log
// store has for the run are deleted.
type LogRemoval struct {
	TenantID, RunID uuid.UUID
	Created         time.Time // creation time of the run
	// Until is when the objects are deleted for the last time. Any upload that was in progress has
	// ended by then.
	Until time.Time
	Moved bool // the log was in the store instead of the database
}
