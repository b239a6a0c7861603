package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// recordEvent is an event and its record.
type recordEvent struct {
	jobrun.RecordEvent
	record dlq.Record
}

// skipsBacklog reports whether records that were in a topic when it was first seen are skipped.
func (in *ingest) skipsBacklog() bool { return in.Sources != nil && !in.Sources.Earliest }

// backlogEnd returns the offset from which to read a partition that was never read. This is the
// offset after the skipped records, or 0 to read from the beginning. The caller holds mu.
func (in *ingest) backlogEnd(s source) int64 {
	if !in.skipsBacklog() {
		return 0
	}
	return max(in.inflows[s].BacklogEnd, 0)
}

// arrived counts stored letters.
func (in *ingest) arrived(read, stored int) {
	if in.Sources == nil {
		in.Observer.Stored(read, stored)
		return
	}
	for range stored {
		in.Observer.NoEvent()
	}
}

// putEvents stores records as events, or as letters if they are not events.
func (in *ingest) putEvents(ctx context.Context, records []read) error {
	var events []recordEvent
	skipped := 0
	for _, r := range records {
		if in.skipsBacklog() {
			switch is, err := in.isBacklog(ctx, r); {
			case err != nil:
				return fmt.Errorf("read the backlog of a topic: %w", err)
			case is:
				skipped++
				continue
			}
		}
		record := recordOf(r)
		if record.Place.TopicID == uuid.Nil {
			record.Place.TopicID = in.assumedLife(r.Topic) // brokers of 2.8 to 3.0 return the id only with metadata
		}
		if record.Place.TopicID == uuid.Nil {
			return errors.New("the brokers do not return topic ids, without which a record could become two events: Kafka 2.8 or later is required")
		}
		e, err := jobrun.EventOf(&record)
		if err != nil {
			if err := in.noEvent(ctx, record, err.Error()); err != nil {
				return err
			}
			continue
		}
		e.ID = in.NewID()
		if e.OccurredAt == nil {
			now := in.Now()
			e.OccurredAt = &now
		}
		of := jobrun.RecordEvent{NewEvent: e, TenantID: in.Sources.Tenants[r.Topic], Place: record.Place}
		events = append(events, recordEvent{of, record})
	}
	if err := in.publish(ctx, events); err != nil {
		return err
	}
	in.Observer.Held(skipped)
	return nil
}

// publish stores a batch of events. A rejected batch is split until the record that PostgreSQL
// rejects is found; that record becomes a letter.
func (in *ingest) publish(ctx context.Context, batch []recordEvent) error {
	if len(batch) == 0 {
		return nil
	}
	events := make([]jobrun.RecordEvent, len(batch))
	for i := range batch {
		events[i] = batch[i].RecordEvent
	}
	stored, err := in.Sources.Store.PublishRecords(ctx, events)
	switch n := len(batch); {
	case err == nil:
		in.Observer.Stored(n, stored)
		return nil
	case fault.KindOf(err) != fault.Invalid:
		return err
	case n > 1:
		if err := in.publish(ctx, batch[:n/2]); err != nil {
			return err
		}
		return in.publish(ctx, batch[n/2:])
	}
	return in.noEvent(ctx, batch[0].record, "the database cannot store its content")
}

// noEvent stores the letter of a record that is not an event.
func (in *ingest) noEvent(ctx context.Context, r dlq.Record, why string) error {
	tenant := in.Sources.Tenants[r.Place.Topic]
	policy, err := in.Store.PolicyOf(ctx, tenant, r.Place.Topic)
	if err != nil {
		return fmt.Errorf("read the policy of a topic: %w", err)
	}
	in.Log.DebugContext(ctx, "a record is not an event and becomes a dead letter",
		slog.Any("place", r.Place), slog.String("reason", why))
	letter := jobrun.NoEvent(r, tenant, why, in.NewID(), policy, dlq.Moment{Now: in.Now()})
	return in.arrive(ctx, []dlq.Arrival{letter}, form(0))
}

// tellSources logs the topics whose records become events, those of them that do not exist, and the
// number of records that were there before.
func (in *ingest) tellSources(ctx context.Context, there []string, backlog map[string]int64) {
	for _, topic := range slices.Sorted(maps.Keys(in.Sources.Tenants)) {
		if !slices.Contains(there, topic) {
			in.Log.WarnContext(ctx, "a topic of kafka.source_topics does not exist; reading starts once the topic exists",
				slog.String("topic", topic))
		}
	}
	in.Log.InfoContext(ctx, "reading topics whose records become events", slog.Any("topics", there))
	for _, topic := range there {
		if n := backlog[topic]; n > 0 {
			does := "they are skipped (kafka.source_start)"
			if in.Sources.Earliest {
				does = "they also become events (kafka.source_start)"
			}
			in.Log.InfoContext(ctx, "a topic had records before it was first read; "+does,
				slog.String("topic", topic), slog.Int64("records", n))
		}
	}
}
