package workerapi

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/rest"
)

// Workers send heartbeats, starts and results thousands of times a second, so
// these bodies are read by hand: they are canonical JSON, of which a walk over
// the bytes finds every member. The rules are those of the contract, and a test
// holds both against each other. Parts that few runs have are left to the schema.

// batchReader reads one body and gathers its mistakes.
type batchReader struct {
	schemas openapi3.Schemas // of the contract
	wrong   []fault.Field
}

func (rd *batchReader) mistake(at, code, message string) {
	if len(rd.wrong) < rest.MaxProblemFields {
		rd.wrong = append(rd.wrong, fault.Field{Pointer: at, Code: code, Message: message})
	}
}

// refusal is the fault of the mistakes, nil when there are none.
func (rd *batchReader) refusal() error {
	if rd.wrong == nil {
		return nil
	}
	return rest.SchemaFault(rd.wrong...)
}

// elements yields the elements of a canonical JSON array.
func elements(array []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		left := array[1:]
		for i := 0; left[0] != ']'; i++ {
			end := rest.ValueEnd(left)
			if !yield(i, left[:end]) {
				return
			}
			if left = left[end:]; left[0] == ',' {
				left = left[1:]
			}
		}
	}
}

// list yields the objects of a member that is an array of at most so many.
func (rd *batchReader) list(at string, raw []byte, least, most int, item func(at string, raw []byte)) {
	if raw[0] != '[' {
		rd.mistake(at, "type", "must be an array")
		return
	}
	n := 0
	for i, raw := range elements(raw) {
		here := at + "/" + strconv.Itoa(i)
		if n = i + 1; n > most {
			rd.mistake(at, "maxItems", "must have at most "+strconv.Itoa(most)+" items")
			return
		}
		if raw[0] != '{' {
			rd.mistake(here, "type", "must be an object")
			continue
		}
		item(here, raw)
	}
	if n < least {
		rd.mistake(at, "minItems", "must have at least "+strconv.Itoa(least)+" items")
	}
}

func (rd *batchReader) uuid(at string, raw []byte) (id uuid.UUID) {
	if len(raw) == 38 && raw[0] == '"' {
		if id, err := uuid.ParseBytes(raw[1:37]); err == nil {
			return id
		}
	}
	rd.mistake(at, "pattern", "does not match the format in the contract")
	return id
}

// whole reads a whole number of at least least and at most bits.
func (rd *batchReader) whole(at string, raw []byte, least int64, bits int) int64 {
	n, err := strconv.ParseInt(string(raw), 10, bits)
	switch {
	case err != nil:
		rd.mistake(at, "type", "must be an integer")
	case n < least:
		rd.mistake(at, "minimum", "must be at least "+strconv.FormatInt(least, 10))
	}
	return n
}

func (rd *batchReader) bool(at string, raw []byte) bool {
	if raw[0] != 't' && raw[0] != 'f' {
		rd.mistake(at, "type", "must be a boolean")
	}
	return raw[0] == 't'
}

// fenceSeen says which members of a fence an item has.
type fenceSeen struct{ run, attempt, token, epoch bool }

// fence reads a member of a run's fence; false: it is none.
func (rd *batchReader) fence(at, name string, raw []byte, f *jobrun.RunFence, seen *fenceSeen) bool {
	switch name {
	case "run_id":
		f.RunID, seen.run = rd.uuid(at+"/run_id", raw), true
	case "attempt":
		f.Fence.Attempt, seen.attempt = int(rd.whole(at+"/attempt", raw, 1, 32)), true
	case "lease_token":
		f.Fence.LeaseToken, seen.token = rd.uuid(at+"/lease_token", raw), true
	case "leader_epoch":
		f.Fence.LeaderEpoch, seen.epoch = rd.whole(at+"/leader_epoch", raw, 1, 64), true
	default:
		return false
	}
	return true
}

// required reports what of a fence is missing.
func (rd *batchReader) required(at string, seen fenceSeen) {
	for _, m := range []struct {
		name string
		seen bool
	}{{"attempt", seen.attempt}, {"leader_epoch", seen.epoch}, {"lease_token", seen.token}, {"run_id", seen.run}} {
		if !m.seen {
			rd.mistake(at+"/"+m.name, "required", "is required")
		}
	}
}

// part reads a part that few have: what the schema says decides.
func (rd *batchReader) part(at, schema string, raw []byte, into any) {
	if raw[0] != '{' {
		rd.mistake(at, "type", "must be an object")
		return
	}
	fields := rest.Violations(rd.schemas[schema].Value, raw)
	for _, f := range fields {
		rd.mistake(at+f.Pointer, f.Code, f.Message)
	}
	if fields == nil && json.Unmarshal(raw, into) != nil {
		rd.mistake(at, "invalid", "cannot be read")
	}
}

// kept returns a copy of free JSON that outlives the body; nil of null.
func kept(raw []byte) json.RawMessage { return bytes.Clone(rest.UnlessNull(raw)) }

// starts reads a StartBatch.
func (rd *batchReader) starts(worker uuid.UUID, body []byte) (out []jobrun.RunFence) {
	found := false
	for name, raw := range object(rd, body) {
		if name != "runs" {
			rd.mistake("/"+name, "unknown", "is unknown")
			continue
		}
		found = true
		rd.list("/runs", raw, 1, jobrun.MaxClaim, func(at string, item []byte) {
			f, seen := jobrun.RunFence{Fence: jobrun.Fence{WorkerID: worker}}, fenceSeen{}
			for name, raw := range rest.Members(item) {
				if !rd.fence(at, name, raw, &f, &seen) {
					rd.mistake(at+"/"+rest.PointerEscapes.Replace(name), "unknown", "is unknown")
				}
			}
			rd.required(at, seen)
			out = append(out, f)
		})
	}
	if !found {
		rd.mistake("/runs", "required", "is required")
	}
	return out
}

// object yields the members of a body that must be an object.
func object(rd *batchReader, body []byte) iter.Seq2[string, []byte] {
	if body[0] != '{' {
		rd.mistake("", "type", "must be an object")
		return func(func(string, []byte) bool) {}
	}
	return rest.Members(body)
}

// results reads a CompleteBatch.
func (rd *batchReader) results(tenant, worker uuid.UUID, body []byte) (out []jobrun.Result) {
	found := false
	for name, raw := range object(rd, body) {
		if name != "runs" {
			rd.mistake("/"+name, "unknown", "is unknown")
			continue
		}
		found = true
		rd.list("/runs", raw, 1, jobrun.MaxClaim, func(at string, item []byte) {
			out = append(out, rd.result(tenant, worker, at, item))
		})
	}
	if !found {
		rd.mistake("/runs", "required", "is required")
	}
	return out
}

func (rd *batchReader) result(tenant, worker uuid.UUID, at string, item []byte) jobrun.Result {
	f, seen := jobrun.RunFence{Fence: jobrun.Fence{WorkerID: worker}}, fenceSeen{}
	r := jobrun.Result{TenantID: tenant}
	for name, raw := range rest.Members(item) {
		if rd.fence(at, name, raw, &f, &seen) {
			continue
		}
		here := at + "/" + rest.PointerEscapes.Replace(name)
		switch name {
		case "result":
			r.Value = kept(raw)
		case "exit_code":
			r.ExitCode = new(int(rd.whole(here, raw, -1<<31, 32)))
		case "timed_out":
			r.TimedOut = rd.bool(here, raw)
		case "error":
			var e api.RunErrorInput
			rd.part(here, "RunErrorInput", raw, &e)
			r.Error = runErrorOf(&e)
		case "resources":
			var res api.RunResources
			rd.part(here, "RunResources", raw, &res)
			r.Resources = resourcesOf(&res)
		case "emit":
			var list []api.EmittedItem
			rd.list(here, raw, 0, jobrun.MaxEmitted, func(at string, item []byte) {
				var e api.EmittedItem
				rd.part(at, "EmittedItem", item, &e)
				list = append(list, e)
			})
			if rd.wrong == nil {
				r.Emit, rd.wrong = emittedOf(list, at)
			}
		default:
			rd.mistake(here, "unknown", "is unknown")
		}
	}
	rd.required(at, seen)
	switch {
	case r.Error == nil && r.TimedOut:
		rd.mistake(at+"/error", "required", "is required with timed_out")
	case r.Error != nil && (r.Value != nil || r.Emit != nil):
		rd.mistake(at+"/error", "excluded", "cannot be combined with result or emit")
	}
	if f := tooLong(&r, at); f != nil {
		rd.mistake(f.Pointer, f.Code, f.Message)
	}
	r.RunID, r.Fence = f.RunID, f.Fence
	return r
}

// heartbeat is a HeartbeatInput.
type heartbeat struct {
	seq   int64
	load  float64
	beats []jobrun.Beat
}

const maxBeats = 10_000 // runs of one heartbeat

func (rd *batchReader) heartbeat(worker uuid.UUID, body []byte) (h heartbeat) {
	for name, raw := range object(rd, body) {
		switch name {
		case "seq":
			h.seq = rd.whole("/seq", raw, 1, 64)
		case "load":
			load, err := strconv.ParseFloat(string(raw), 64)
			if err != nil {
				rd.mistake("/load", "type", "must be a number")
			} else if load < 0 {
				rd.mistake("/load", "minimum", "must be at least 0")
			}
			h.load = load
		case "running":
			rd.list("/running", raw, 0, maxBeats, func(at string, item []byte) { h.beats = append(h.beats, rd.beat(worker, at, item)) })
		default:
			rd.mistake("/"+rest.PointerEscapes.Replace(name), "unknown", "is unknown")
		}
	}
	if h.seq == 0 && rd.wrong == nil {
		rd.mistake("/seq", "required", "is required")
	}
	return h
}

func (rd *batchReader) beat(worker uuid.UUID, at string, item []byte) jobrun.Beat {
	f, seen := jobrun.RunFence{Fence: jobrun.Fence{WorkerID: worker}}, fenceSeen{}
	var b jobrun.Beat
	for name, raw := range rest.Members(item) {
		if rd.fence(at, name, raw, &f, &seen) {
			continue
		}
		here := at + "/" + rest.PointerEscapes.Replace(name)
		switch name {
		case "checkpoint":
			b.Checkpoint = kept(raw)
		case "progress":
			var p jobrun.Progress
			rd.part(here, "RunProgress", raw, &p)
			b.Progress = &p
		default:
			rd.mistake(here, "unknown", "is unknown")
		}
	}
	rd.required(at, seen)
	b.RunID, b.Fence = f.RunID, f.Fence
	return b
}
