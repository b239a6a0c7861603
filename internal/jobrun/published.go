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
	// unique per type, while the setting event_dedupe_hours lasts (S16)
	DedupeKey     string     `json:"dedupe_key,omitempty"`
	CorrelationID string     `json:"correlation_id,omitempty"`
	OccurredAt    *time.Time `json:"occurred_at,omitempty"` // nil: now
	By            string     `json:"-"`                     // who publishes it; of a run's, who is behind that
}

// PublishedEvent is seed 5's Event.
type PublishedEvent struct {
	NewEvent
	TenantID    uuid.UUID
	CreatedAt   time.Time
	ProcessedAt *time.Time // nil: its runs are not all made yet
	SourceRunID uuid.UUID
	Record      *EventRecord // the record of a Kafka topic that it is; nil: none
	Deliveries  []EventDelivery
	Publication *EventPublication // nil: it is published to no topic
}

// Place is where it stands in a list.
func (e *PublishedEvent) Place() page.TimeID { return page.TimeID{At: e.CreatedAt, ID: e.ID} }

// EventRecord is where a record of a Kafka topic is.
type EventRecord struct {
	Topic     string
	Partition int32
	Offset    int64
}

// EventDelivery is what an event has led to for one definition.
type EventDelivery struct {
	DefinitionID uuid.UUID
	RunID        uuid.UUID // zero: none yet
	Attempts     int
	Error        string
	DeliveredAt  *time.Time
	NextTryAt    *time.Time
	LetterID     uuid.UUID
}

// EventPublication is the progress of an event on its way to a topic.
type EventPublication struct {
	Topic     string
	CreatedAt time.Time
	EndedAt   *time.Time // nil: it is still to be sent
	Error     string     // why the topic refuses it; "": it does not
	LetterID  uuid.UUID
}

// EventFilter selects events; zero fields do not restrict.
type EventFilter struct {
	Type          string
	Processed     *bool
	CorrelationID string
	From, To      time.Time // created: inclusive, exclusive
}

// Events is events and what they trigger.
type Events interface {
	// Publish stores an event durably; of a dedupe key that counts, the one that is
	// there (created false).
	Publish(ctx context.Context, tenant uuid.UUID, e NewEvent) (stored PublishedEvent, created bool, err error)
	Event(ctx context.Context, tenant, id uuid.UUID) (PublishedEvent, error)
	ListEvents(ctx context.Context, tenant uuid.UUID, f EventFilter, p page.ByTime) (page.Of[PublishedEvent], error)
	// Deliver creates the runs of up to limit events (sweep 9): one for each matching
	// definition that is enabled and not paused. Failed deliveries are retried later
	// and finally become dead letters.
	Deliver(ctx context.Context, t Term, s Settings, limit int) (Swept, error)
}

// SettingValue is a setting as it stands.
type SettingValue struct {
	Setting
	Value     float64
	IsDefault bool
	UpdatedBy string
	UpdatedAt *time.Time
}

// SettingChange is one change in the past.
type SettingChange struct {
	Version  int64
	Name     string
	Old, New *float64 // nil: the default
	By       string
	Reason   string
	At       time.Time
}

// SettingsStore keeps the settings of the deployment.
type SettingsStore interface {
	Settings(ctx context.Context) (Settings, error)
	SettingValues(ctx context.Context) (values []SettingValue, version int64, err error)
	// ChangeSettings sets values, nil: back to the default, if the version is still
	// that one (0: any). Faults: Precondition (CodeStale), Invalid (CodeSetting).
	ChangeSettings(ctx context.Context, version int64, values map[string]*float64, by operator.Action) (Settings, error)
	SettingsHistory(ctx context.Context, limit int) ([]SettingChange, error)
}

// Offloading moves logs out of the database (J-39 to J-41, S20).
type Offloading interface {
	// Offloadable returns up to limit runs that ended before and still have chunks
	// here, oldest first.
	Offloadable(ctx context.Context, before time.Time, limit int) ([]Run, error)
	// Offloaded stores where the log of a run is and deletes its chunks, in one
	// transaction, if the number of chunks and bytes is still as given, so that chunks
	// appended since are not lost (J9). False: the numbers have changed and nothing was
	// stored.
	Offloaded(ctx context.Context, tenant, run uuid.UUID, ref string, sum []byte, chunks int, bytes int64) (bool, error)
	// Purge deletes runs of this kind that ended before, with attempts, events and
	// chunks, and returns their log refs, whose objects are deleted afterwards.
	Purge(ctx context.Context, before time.Time, limit int) (refs []string, deleted int, err error)
}
