// Package erasure contains the rules for erasing content on request: the content of sagas and
// everything that belongs to them, of dead letters, and of job runs. The record of what happened is
// kept without the content.
package erasure

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/saga"
)

// MaxErased is the maximum number each of sagas, dead letters and job runs in one erasure.
const MaxErased = 500

// Subject selects the content to erase; exactly one field is set. The keys select sagas with
// everything that belongs to them. CorrelationID also selects the dead letters and job runs that
// have this correlation id themselves.
type Subject struct {
	SagaID, LetterID, RunID    uuid.UUID
	BusinessKey, CorrelationID string
}

// Erasure is a request to erase content. ID is also the id of its audit record.
type Erasure struct {
	ID, TenantID     uuid.UUID
	Subject          Subject
	At               time.Time
	Actor, RequestID string
	ActorName        string // the actor's name at the time of the request
	Reason           string
	DryRun           bool // only count
}

// Erasures counts the resources whose content was erased.
type Erasures struct {
	Sagas      int  `json:"sagas"`
	StepLogs   int  `json:"step_logs"`
	Events     int  `json:"audit_events"`
	Letters    int  `json:"dead_letters"`
	Runs       int  `json:"job_runs"`
	Deliveries int  `json:"webhook_deliveries"`
	More       bool `json:"more"` // MaxErased was reached; repeat the request
}

// Changes returns the changes that an erasure would make to that many resources.
func (e *Erasures) Changes() (all dryrun.List) {
	for _, c := range []dryrun.Change{
		{Of: "saga", Count: int64(e.Sagas)}, {Of: "step_log", Count: int64(e.StepLogs)},
		{Of: "audit_event", Count: int64(e.Events)}, {Of: "dead_letter", Count: int64(e.Letters)},
		{Of: "job_run", Count: int64(e.Runs)}, {Of: "webhook_delivery", Count: int64(e.Deliveries)},
	} {
		if c.Member, c.From = "content", "stored"; c.Count > 0 {
			all = append(all, c)
		}
	}
	return all
}

// Eraser erases content. Faults: NotFound if the subject is an id that does not exist; Conflict
// with CodeNotErasable if any of the content is still needed, in which case nothing is erased.
type Eraser interface {
	Erase(ctx context.Context, e Erasure) (Erasures, error)
}

// Event returns the event that records the erasure e of a saga's content. It lists each event that
// loses content, with the digest of its remaining part. Stored remains the digest of the original
// event, which the chain's seals cover.
func (e *Erasure) Event(id uuid.UUID, events []trail.StoredEvent) (saga.AuditEvent, error) {
	var remain map[string]string
	for i := range events {
		digest := events[i].Digest()
		if events[i].Altered || !bytes.Equal(digest[:], events[i].Stored) {
			return saga.AuditEvent{}, fault.New(fault.Conflict, CodeNotErasable,
				"event %d of saga %s differs from what was written, and erasing its content would hide that: verify the audit trail first", events[i].ID, id)
		}
		left := events[i].AuditEvent
		left.Error = left.Error.Erased()
		digest = left.Digest()
		if remain == nil {
			remain = map[string]string{}
		}
		remain[fmt.Sprint(events[i].ID)] = hex.EncodeToString(digest[:])
	}
	record := saga.AuditEvent{TenantID: e.TenantID, SagaID: id, Type: eventtype.SagaErased,
		StepIndex: saga.NoStep, At: e.At,
		Old: saga.NoState, New: saga.NoState, Actor: e.Actor, RequestID: e.RequestID}
	record.RecordsErasure(e.Reason, remain)
	record.NameActor(e.ActorName)
	return record, nil
}

// Account marks as intact the links of events from which only recorded erasures removed content. If
// the digest of an event's remaining part differs from the one recorded by an erasure of the saga,
// the content was changed. links are the links of events.
func Account(links []trail.Link, events, erasures []trail.StoredEvent) {
	left := map[string]string{}
	for i := range erasures {
		digest := erasures[i].Digest()
		if !bytes.Equal(digest[:], erasures[i].Stored) {
			continue
		}
		for id, digest := range erasures[i].ErasureRecorded() {
			left[erasures[i].SagaID.String()+" "+id] = digest
		}
	}
	for i := range links {
		digest := events[i].Digest()
		is, erased := left[links[i].Subject+" "+fmt.Sprint(links[i].ID)]
		if !links[i].Intact && !events[i].Altered && erased && is == hex.EncodeToString(digest[:]) {
			links[i].Intact = true
		}
	}
}

// NotErasable returns the fault for an erasure of something that is still active.
func NotErasable(sagas, letters, runs []uuid.UUID) *fault.Error {
	var active []string
	for _, a := range []struct {
		ids            []uuid.UUID
		what, one, all string
	}{
		{runs, "job run", "wait until it ends or cancel it", "wait until they end or cancel them"},
		{letters, "dead letter", "resolve or discard it", "resolve or discard them"},
		{sagas, "saga", "end it, and acknowledge it if it needs attention",
			"end them, and acknowledge those that need attention"},
	} {
		switch n := len(a.ids); {
		case n == 1:
			active = append(active, fmt.Sprintf("%s %s is still active: %s", a.what, a.ids[0], a.one))
		case n > 1:
			active = append(active, fmt.Sprintf("%d %ss (%s, …) are still active: %s", n, a.what, a.ids[0], a.all))
		}
	}
	return fault.New(fault.Conflict, CodeNotErasable, "nothing was erased: %s", strings.Join(active, "; "))
}

// String describes the subject in records. It omits keys, because a key may name a person, and
// records are kept.
func (s *Subject) String() string {
	switch {
	case s.SagaID != uuid.Nil:
		return "saga:" + s.SagaID.String()
	case s.LetterID != uuid.Nil:
		return "dead_letter:" + s.LetterID.String()
	case s.RunID != uuid.Nil:
		return "job_run:" + s.RunID.String()
	case s.BusinessKey != "":
		return "business_key"
	}
	return "correlation_id"
}
