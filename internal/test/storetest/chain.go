package storetest

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/saga"
)

var chains = []contract{
	{"seals cover every event once, in feed order, and each hashes its events and the previous seal", chainCovers},
	{"with sixteen concurrent sealers, each event is sealed once", chainRace},
	{"a seal covers at most limit events", chainLimit},
	{"a tenant is unsealed until its last event is covered", chainUnsealed},
	{"seals can be read from any number on", chainPages},
}

// last is a position after every event.
var last = trail.Position{TxID: math.MaxInt64, ID: math.MaxInt64}

func (f *fixture) seal() int {
	f.t.Helper()
	n, err := f.Chain.Seal(f.t.Context(), f.tenant.ID)
	if err != nil {
		f.t.Fatalf("seal: %v", err)
	}
	return n
}

func (f *fixture) seals(from int64, limit int) []trail.Seal {
	f.t.Helper()
	seals, err := f.Chain.Seals(f.t.Context(), f.tenant.ID, from, limit)
	if err != nil {
		f.t.Fatalf("seals: %v", err)
	}
	return seals
}

// checkChain recomputes all seals, compares them with the stored ones, and returns the positions of
// the events that they cover.
func (f *fixture) checkChain() (covered []trail.Position) {
	f.t.Helper()
	prev, at := make([]byte, 32), trail.Position{}
	for i, s := range f.seals(1, 1000) {
		events, err := f.Chain.Span(f.t.Context(), f.tenant.ID, at, s.To, trail.MaxSealed+1)
		if err != nil {
			f.t.Fatal(err)
		}
		sum := s.Sum(trail.LinksOf(events))
		if len(events) == 0 {
			f.t.Fatalf("seal %d covers no events", i+1)
		}
		want := trail.Seal{
			TenantID: f.tenant.ID, Seq: int64(i + 1), Prev: prev, Hash: sum[:], Events: len(events),
			From: events[0].Position, To: events[len(events)-1].Position, SealedAt: s.SealedAt,
		}
		if diff := cmp.Diff(want, s); diff != "" || s.SealedAt.IsZero() {
			f.t.Fatalf("seal %d of %s does not fit its %d events (-want +got):\n%s", i+1, s.SealedAt, len(events), diff)
		}
		prev, at = s.Hash, s.To
		covered = append(covered, positions(events)...)
	}
	return covered
}

func chainCovers(f *fixture) {
	for range 3 {
		told(f)
		f.Settle(f.t)
		if f.seal() == 0 {
			f.t.Error("nothing was sealed")
		}
	}
	if n := f.seal(); n != 0 {
		f.t.Errorf("%d events were sealed a second time", n)
	}
	all := f.feed(trail.EventFilter{}, 1000)
	if diff := cmp.Diff(positions(all), f.checkChain()); diff != "" {
		f.t.Errorf("events (-feed +sealed):\n%s", diff)
	}
	span, err := f.Chain.Span(f.t.Context(), f.tenant.ID, all[1].Position, all[5].Position, 3)
	if diff := cmp.Diff(positions(all[2:5]), positions(span)); diff != "" || err != nil {
		f.t.Errorf("a span of at most three, %v (-want +got):\n%s", err, diff)
	}
	for i := range span {
		want := all[i+2]
		want.WorkflowName, want.CorrelationID, want.BusinessKey, want.TraceState, want.Baggage = "", nil, nil, nil, nil
		got := span[i]
		got.WorkflowName, got.CorrelationID, got.BusinessKey, got.TraceState, got.Baggage = "", nil, nil, nil, nil
		if diff := cmp.Diff(want, got); diff != "" {
			f.t.Errorf("event (-feed +span):\n%s", diff)
		}
	}
}

func chainRace(f *fixture) {
	told(f)
	f.Settle(f.t)
	var sealed atomic.Int64
	together(16, func(int) {
		n, err := f.Chain.Seal(f.t.Context(), f.tenant.ID)
		if err != nil {
			f.t.Error(err)
		}
		sealed.Add(int64(n))
	})
	if covered := f.checkChain(); int64(len(covered)) != sealed.Load() ||
		sealed.Load() != int64(len(f.feed(trail.EventFilter{}, 1000))) {
		f.t.Errorf("%d events are covered, %d were reported", len(covered), sealed.Load())
	}
}

func chainLimit(f *fixture) {
	var batch []saga.NewSaga
	for range trail.MaxSealed + 1 {
		batch = append(batch, f.unowned())
	}
	for part := range slices.Chunk(batch, 500) {
		f.create(part...)
	}
	f.Settle(f.t)
	if first, second := f.seal(), f.seal(); first != trail.MaxSealed || second != 1 {
		f.t.Errorf("seals over %d and %d events, want %d and 1", first, second, trail.MaxSealed)
	}
	f.checkChain()
}

func chainUnsealed(f *fixture) {
	mine := func() (found []trail.Unsealed) {
		list, err := f.Chain.Unsealed(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		return slices.DeleteFunc(list, func(u trail.Unsealed) bool { return u.TenantID != f.tenant.ID })
	}
	if got := mine(); len(got) != 0 {
		f.t.Errorf("unsealed without events: %+v", got)
	}
	f.stored(f.unowned())
	f.Settle(f.t)
	if got := mine(); len(got) != 1 || !got[0].Settled || got[0].Age < 0 {
		f.t.Errorf("unsealed with an event: %+v", got)
	}
	f.seal()
	if got := mine(); len(got) != 0 {
		f.t.Errorf("unsealed after the seal: %+v", got)
	}
	f.stored(f.unowned())
	f.Settle(f.t)
	if got := mine(); len(got) != 1 || !got[0].Settled {
		f.t.Errorf("unsealed with a second event: %+v", got)
	}
}

func chainPages(f *fixture) {
	for range 3 {
		f.stored(f.unowned())
		f.Settle(f.t)
		f.seal()
	}
	all := f.seals(1, 10)
	for _, tt := range []struct {
		from  int64
		limit int
		want  []trail.Seal
	}{{1, 2, all[:2]}, {2, 2, all[1:]}, {3, 5, all[2:]}, {4, 5, nil}} {
		got := f.seals(tt.from, tt.limit)
		if diff := cmp.Diff(tt.want, got); diff != "" && len(tt.want)+len(got) > 0 {
			f.t.Errorf("from %d, %d at most (-want +got):\n%s", tt.from, tt.limit, diff)
		}
	}
	if links, err := f.Chain.Links(f.t.Context(), f.tenant.ID, trail.Position{}, last, 10); err != nil ||
		!cmp.Equal(trail.LinksOf(f.span(last)), links) {
		f.t.Errorf("links that do not match the events: %+v, %v", links, err)
	}
	if events, err := f.Chain.Span(f.t.Context(), newID(), trail.Position{}, last, 10); err != nil || len(events) != 0 {
		f.t.Errorf("a span of another tenant has %d events, %v", len(events), err)
	}
}

// span returns the first ten events up to a position.
func (f *fixture) span(upTo trail.Position) []trail.StoredEvent {
	f.t.Helper()
	events, err := f.Chain.Span(f.t.Context(), f.tenant.ID, trail.Position{}, upTo, 10)
	if err != nil || len(events) == 0 {
		f.t.Fatalf("a span of %d events, %v", len(events), err)
	}
	return events
}
