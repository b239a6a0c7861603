package workerapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
)

// WorkerHeartbeat renews the leases of a worker (W2).
func (s *Handlers) WorkerHeartbeat(ctx context.Context, in api.WorkerHeartbeatRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if err := s.bound(ctx, in.WorkerID); err != nil {
		return nil, err
	}
	settings, err := s.Current(ctx)
	if err != nil {
		return nil, err
	}
	b, load := in.Body, 0.0
	if b.Load != nil {
		load = *b.Load
	}
	req := httpkit.RequestOf(ctx)
	items := make([]found, len(b.Running))
	var beats []jobrun.Beat
	var places []int // positions of the beats in the list
	for i := range b.Running {
		r := &b.Running[i]
		item, sound := foundIn(req, i, r, r.Value.RunID)
		if items[i] = item; !sound {
			continue
		}
		var texts plaintext.Members
		beats, places = append(beats, toBeat(in.WorkerID, &r.Value, &texts)), append(places, i)
		items[i].adjusted = httpkit.Merged(items[i].adjusted, texts.Changed)
	}
	w, leases, err := s.Work.Heartbeat(ctx, req.Tenant.ID, in.WorkerID, b.Seq, load, beats)
	if err != nil {
		return nil, err
	}
	s.waits.NoteHeartbeat(req.Tenant.ID, in.WorkerID)
	out := toHeartbeat(&w, settings, leases, items, places)
	if req.Around != nil {
		out.Problem = httpkit.ItemProblem(req.Around)
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// StartRuns starts many runs independently.
func (s *Handlers) StartRuns(ctx context.Context, in api.StartRunsRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if err := s.bound(ctx, in.WorkerID); err != nil {
		return nil, err
	}
	lease, err := s.runLease(ctx)
	if err != nil {
		return nil, err
	}
	return many(ctx, lease, in.Body.Runs, func(v *api.StartItem) uuid.UUID { return v.RunID },
		func(v *api.StartItem, _ *plaintext.Members) (jobrun.RunFence, error) {
			fence := fenceOf(in.WorkerID, v.Attempt, v.LeaseToken, v.LeaderEpoch)
			return jobrun.RunFence{RunID: v.RunID, Fence: fence}, nil
		},
		func(tenant uuid.UUID, fences []jobrun.RunFence) ([]jobrun.Done, error) {
			return s.Work.Start(ctx, tenant, fences)
		})
}

// CompleteRuns ends many runs independently.
func (s *Handlers) CompleteRuns(ctx context.Context, in api.CompleteRunsRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if err := s.bound(ctx, in.WorkerID); err != nil {
		return nil, err
	}
	b, outcomes := reported(ctx, in.WorkerID, in.Body.Runs)
	done, err := s.settle(ctx, outcomes, s.Work.Finish)
	if err != nil {
		return nil, err
	}
	b.put(done)
	return b.answer(0)
}

// reported reads the items of a report.
func reported(ctx context.Context, worker uuid.UUID, items []api.Item[api.CompleteItem]) (*batch, []outcome) {
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	return collect(ctx, items, func(v *api.CompleteItem) uuid.UUID { return v.RunID },
		func(v *api.CompleteItem, texts *plaintext.Members) (outcome, error) {
			out, wrong := toOutcome(tenant, worker, v, texts)
			if wrong != nil {
				return out, wrong
			}
			return out, mayEmit(ctx, &out.Result)
		})
}

// settle stores outcomes and returns one Done for each. It stores canceled runs one by one, and
// then the others with finish.
func (s *Handlers) settle(ctx context.Context, outcomes []outcome,
	finish func(context.Context, []jobrun.Result) ([]jobrun.Done, error)) ([]jobrun.Done, error) {
	out := make([]jobrun.Done, len(outcomes))
	var results []jobrun.Result
	var places []int
	for i := range outcomes {
		o := &outcomes[i]
		if !o.canceled {
			results, places = append(results, o.Result), append(places, i)
			continue
		}
		done, err := s.Work.AckCancel(ctx, o.TenantID, o.RunID, o.Fence)
		if err != nil && fault.As(err) == nil {
			return nil, err
		}
		out[i], out[i].Err = done, err
	}
	done, err := finish(ctx, results)
	for n := range done {
		out[places[n]] = done[n]
	}
	return out, err
}

// many responds to a call about many runs, each of which is handled independently. read converts an
// item to the form that the store takes, or refuses it. store decides about all items that are not
// refused.
func many[T, V any](ctx context.Context, lease int64, items []api.Item[T], id func(*T) uuid.UUID,
	read func(*T, *plaintext.Members) (V, error),
	store func(tenant uuid.UUID, all []V) ([]jobrun.Done, error)) (api.Response, error) {
	b, all := collect(ctx, items, id, read)
	if len(all) > 0 {
		done, err := store(httpkit.RequestOf(ctx).Tenant.ID, all)
		if err != nil {
			return nil, err
		}
		b.put(done)
	}
	return b.answer(lease)
}

// collect reads the items of a list, and returns those that go to the store.
func collect[T, V any](ctx context.Context, items []api.Item[T], id func(*T) uuid.UUID,
	read func(*T, *plaintext.Members) (V, error)) (*batch, []V) {
	req, b := httpkit.RequestOf(ctx), &batch{seen: map[uuid.UUID]struct{}{}}
	var all []V
	for i := range items {
		item := &items[i]
		if !take(b, req, i, item, id(&item.Value)) {
			continue
		}
		var texts plaintext.Members
		v, err := read(&item.Value, &texts)
		b.items[i].adjusted = httpkit.Merged(b.items[i].adjusted, texts.Changed)
		if err != nil {
			b.refuse(i, err)
			continue
		}
		all = append(all, v)
	}
	return b, all
}

// batch collects the outcomes of the items of a list.
type batch struct {
	items  []found
	done   []jobrun.Done
	places []int // positions of the items that go to the store
	seen   map[uuid.UUID]struct{}
}

// take reports whether item i goes to the store. A repeated item for the same run does not.
func take[T any](b *batch, req *httpkit.Request, i int, item *api.Item[T], id uuid.UUID) bool {
	f, goOn := foundIn(req, i, item, id)
	if _, twice := b.seen[id]; twice && goOn {
		f.refused = httpkit.SchemaFault(fault.Field{Pointer: "/run_id", Code: "repeated",
			Message: "must not be repeated: an earlier item in the list names the same run"})
		goOn = false
	}
	b.items, b.done = append(b.items, f), append(b.done, jobrun.Done{})
	if !goOn {
		b.done[i].Err = f.refused
		return false
	}
	b.seen[id] = struct{}{}
	b.places = append(b.places, i)
	return true
}

// refuse withdraws the last item taken.
func (b *batch) refuse(i int, err error) {
	b.done[i].Err, b.places = err, b.places[:len(b.places)-1]
}

// put sets the results of the items that went to the store.
func (b *batch) put(done []jobrun.Done) {
	for i, at := range b.places {
		b.done[at] = done[i]
	}
}

// known returns the reason why the outcome of an item is unknown, if there is one. In that case the
// whole batch fails: the worker repeats it, and runs that were already processed are answered as
// replays.
func (b *batch) known() error {
	for i := range b.done {
		if err := b.done[i].Err; err != nil && fault.As(err) == nil {
			return err
		}
	}
	return nil
}

// refused reports whether an item was refused.
func (b *batch) refused() bool {
	return slices.ContainsFunc(b.done, func(d jobrun.Done) bool { return d.Err != nil })
}

// answer returns a result for each item.
func (b *batch) answer(lease int64) (httpkit.Answer, error) {
	if err := b.known(); err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: toRunResults(lease, b.done, b.items)}, nil
}
