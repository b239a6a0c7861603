package jobrun

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/page"
)

// NewEvent is an event to be published.
type NewEvent struct {
	ID      uuid.UUID       `json:"-"`
	Type    string          `json:"event_type"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// unique per type for event_dedupe_hours (S16)
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
	ProcessedAt *time.Time // nil: its runs have not all been created
	SourceRunID uuid.UUID
	Record      *EventRecord // the Kafka record that it was read from; nil: none
	Deliveries  []EventDelivery
	Publication *EventPublication // nil: it is published to no topic
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

// EventFilter selects events; zero fields do not restrict.
type EventFilter struct {
	Type          string
	Processed     *bool
	CorrelationID string
	From, To      time.Time // creation time: inclusive, exclusive
}

// Events stores events and their deliveries.
type Events interface {
	// Publish stores an event durably. If an event has the dedupe key within its window, it returns
	// that one, and created is false.
	Publish(ctx context.Context, tenant uuid.UUID, e NewEvent) (stored PublishedEvent, created bool, err error)
	// WouldPublish returns the event that Publish would return instead of storing e, or nil; and the definitions that
	// listen to any event.
	WouldPublish(ctx context.Context, tenant uuid.UUID, e NewEvent) (*PublishedEvent, []Definition, error)
	Event(ctx context.Context, tenant, id uuid.UUID) (PublishedEvent, error)
	ListEvents(ctx context.Context, tenant uuid.UUID, f EventFilter, p page.ByTime) (page.Of[PublishedEvent], error)
	// Deliver creates the runs of up to limit events (sweep 9), one for each matching definition
	// that is enabled and not paused. Failed deliveries are retried later, and become dead letters
	// when retries are exhausted.
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
	// ChangeSettings sets values, where nil restores the default, if the version is still the given
	// one (0: any). Faults: Precondition (CodeStale), Invalid (CodeSetting).
	ChangeSettings(ctx context.Context, version int64, values map[string]*float64, by operator.Action) (Settings, error)
	SettingsHistory(ctx context.Context, limit int) ([]SettingChange, error)
}

// Offloading moves logs out of the database (J-39 to J-41, S20).
type Offloading interface {
	// Offloadable returns up to limit runs that ended before the given time and still have chunks
	// in the database, oldest first.
	Offloadable(ctx context.Context, before time.Time, limit int) ([]Run, error)
	// Offloaded stores the location of a run's log and deletes its chunks, in one transaction, if
	// the number of chunks and bytes is unchanged, so that chunks appended since are not lost (J9).
	// It returns false, and stores nothing, if the numbers have changed.
	Offloaded(ctx context.Context, tenant, run uuid.UUID, ref string, sum []byte, chunks int, bytes int64) (bool, error)
	// Purge deletes runs of this kind that ended before the given time, with attempts, events and
	// chunks, and makes removals of their logs.
	Purge(ctx context.Context, before time.Time, limit int) (deleted int, err error)
	// Removals returns up to limit logs whose objects are to be deleted now, earliest due first.
	Removals(ctx context.Context, limit int) ([]LogRemoval, error)
	// Removed ends a removal whose objects have been deleted, or makes it due again at its Until.
	Removed(ctx context.Context, r LogRemoval) error
}

// LogRemoval is a log that its run no longer has, because the run was purged or its content was
// erased. Whatever the log store has of the run is deleted.
type LogRemoval struct {
	TenantID, RunID uuid.UUID
	Created         time.Time // the run's
	// Until is when the objects are deleted for the last time: by then an upload that was under way
	// has ended.
	Until time.Time
	Moved bool // the log was in the store, not in the database
}
