package workerapi

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/rest"
)

// The answers to what workers ask all the time are written by hand, as they are
// read (worker_read.go): members in a fixed order, none without a value.

// jsonText is a JSON document that grows.
type jsonText struct {
	b    []byte
	next bool // a comma comes before the next member or element
}

func (j *jsonText) open(c byte) { j.b, j.next = append(j.b, c), false }

func (j *jsonText) shut(c byte) { j.b, j.next = append(j.b, c), true }

func (j *jsonText) comma() {
	if j.next {
		j.b = append(j.b, ',')
	}
	j.next = true
}

// key begins a member. Names need no escapes.
func (j *jsonText) key(name string) {
	j.comma()
	j.b = append(append(append(j.b, '"'), name...), '"', ':')
}

func (j *jsonText) int(name string, v int64) {
	j.key(name)
	j.b = strconv.AppendInt(j.b, v, 10)
}

func (j *jsonText) bool(name string, v bool) {
	j.key(name)
	j.b = strconv.AppendBool(j.b, v)
}

// OnlyTrue writes a member that is left out when it is false.
func (j *jsonText) onlyTrue(name string, v bool) {
	if v {
		j.bool(name, v)
	}
}

// id writes a UUID; zero is left out.
func (j *jsonText) id(name string, v uuid.UUID) {
	if v == uuid.Nil {
		return
	}
	j.key(name)
	var text [36]byte
	encoded, _ := v.MarshalText() // never fails
	copy(text[:], encoded)
	j.b = append(append(append(j.b, '"'), text[:]...), '"')
}

// time writes a time; nil is left out.
func (j *jsonText) time(name string, v *time.Time) {
	if v == nil {
		return
	}
	j.key(name)
	j.b = append(v.UTC().AppendFormat(append(j.b, '"'), time.RFC3339Nano), '"')
}

// text writes a text, also an empty one.
func (j *jsonText) text(name, v string) {
	j.key(name)
	for i := range len(v) {
		if c := v[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(v) // never fails
			j.b = append(j.b, quoted...)
			return
		}
	}
	j.b = append(append(append(j.b, '"'), v...), '"')
}

// textUnlessEmpty writes a text; "" is left out.
func (j *jsonText) textUnlessEmpty(name, v string) {
	if v != "" {
		j.text(name, v)
	}
}

// raw writes JSON as it is; nil is left out.
func (j *jsonText) raw(name string, v json.RawMessage) {
	if v == nil {
		return
	}
	j.key(name)
	j.b = append(j.b, v...)
}

// claimedRuns is a ClaimedRuns.
func claimedRuns(lease int64, state jobrun.WorkerState, offers []jobrun.Offer) []byte {
	j := jsonText{b: make([]byte, 0, 64+700*len(offers))}
	j.open('{')
	j.text("state", string(state))
	j.int("lease_ms", lease)
	j.key("runs")
	j.open('[')
	for i := range offers {
		o := &offers[i]
		j.comma()
		j.open('{')
		j.id("run_id", o.ID)
		j.text("definition", o.DefinitionName)
		j.id("definition_id", o.DefinitionID)
		j.text("command", o.CommandName)
		j.raw("args", o.Args)
		j.int("attempt", int64(o.Attempt))
		j.id("lease_token", o.LeaseToken)
		j.int("leader_epoch", o.LeaderEpoch)
		j.text("fencing_token", o.FencingToken())
		j.int("version", o.Version)
		j.text("state", string(o.State))
		j.time("lease_expires_at", o.LeaseExpiresAt)
		j.int("timeout_ms", o.TimeoutMS)
		j.time("scheduled_for", &o.ScheduledFor)
		j.text("trigger", string(o.Trigger))
		j.text("queue", o.Queue)
		j.int("priority", int64(o.Priority))
		j.text("idempotency_key", o.IdempotencyKey)
		j.textUnlessEmpty("concurrency_key", o.ConcurrencyKey)
		j.raw("checkpoint", o.LastCheckpoint)
		j.textUnlessEmpty("correlation_id", o.CorrelationID)
		j.textUnlessEmpty("trace_id", o.TraceID)
		j.id("saga_id", o.SagaID)
		j.id("event_id", o.EventID)
		j.shut('}')
	}
	j.shut(']')
	j.shut('}')
	return append(j.b, '\n')
}

// runResults is a RunResults; lease 0: not told. ids are of the items, in order.
func runResults(lease int64, done []jobrun.Done, id func(i int) uuid.UUID) []byte {
	j := jsonText{b: make([]byte, 0, 64+180*len(done))}
	j.open('{')
	if lease > 0 {
		j.int("lease_ms", lease)
	}
	j.key("results")
	j.open('[')
	for i := range done {
		d := &done[i]
		j.comma()
		j.open('{')
		j.id("run_id", id(i))
		if f := fault.As(d.Err); f != nil {
			j.int("status", int64(rest.StatusOf(f.Kind)))
			if problem, err := json.Marshal(rest.ItemProblem(f)); err == nil {
				j.raw("problem", problem)
			}
			j.shut('}')
			continue
		}
		j.int("status", 200)
		j.text("state", string(d.Run.State))
		j.int("version", d.Run.Version)
		if !d.Run.State.Terminal() {
			j.time("lease_expires_at", d.Run.LeaseExpiresAt)
			j.onlyTrue("cancel_requested", d.Run.CancelRequestedAt != nil)
		}
		j.onlyTrue("replayed", d.Replayed)
		j.id("retry_run_id", d.RetryID)
		j.time("retry_at", d.RetryAt)
		j.id("dlq_message_id", d.LetterID)
		j.shut('}')
	}
	j.shut(']')
	j.shut('}')
	return append(j.b, '\n')
}

// heartbeatAnswer is a Heartbeat.
func heartbeatAnswer(w *jobrun.WorkerProcess, settings jobrun.Settings, leases []jobrun.Lease) []byte {
	j := jsonText{b: make([]byte, 0, 160+150*len(leases))}
	j.open('{')
	j.text("state", string(w.State))
	j.int("settings_version", settings.Version)
	j.int("heartbeat_interval_ms", settings.Seconds(jobrun.HeartbeatInterval).Milliseconds())
	j.int("lease_ms", settings.Seconds(jobrun.RunLease).Milliseconds())
	j.key("leases")
	j.open('[')
	for i := range leases {
		l := &leases[i]
		j.comma()
		j.open('{')
		j.id("run_id", l.RunID)
		j.bool("ok", l.OK)
		if l.OK {
			j.time("lease_expires_at", &l.ExpiresAt)
		}
		j.onlyTrue("cancel_requested", l.CancelRequested)
		j.textUnlessEmpty("reason", l.Reason)
		j.shut('}')
	}
	j.shut(']')
	j.shut('}')
	return append(j.b, '\n')
}
