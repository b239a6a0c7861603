package participantgate

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// Known caches the participants of all tenants as this node last read them. It is safe for
// concurrent use; lookups neither lock nor allocate.
type Known struct {
	rows registry.Rows
	now  atomic.Pointer[view] // nil until they are read
	turn sync.Mutex           // serializes Refresh
	mark registry.Mark        // guarded by turn
	wake chan struct{}
}

// view is the result of one read. It never changes.
type view struct {
	tenants map[uuid.UUID]*participants
}

// participants holds the participants of one tenant.
type participants struct {
	byName map[string]*named
	byHost map[string][]placed // those with the longest path first
}

type named struct {
	registry.Participant
	standing registry.Standing
}

type placed struct {
	registry.Place
	of *registry.Participant
}

// NewKnown returns a cache of the participants in rows. It is empty until they are read.
func NewKnown(rows registry.Rows) *Known {
	return &Known{rows: rows, wake: make(chan struct{}, 1)}
}

// Read reads the participants unless this node has already read them. Calls wait for it, because
// any of them may go to a participant that is held.
func (k *Known) Read(ctx context.Context) error {
	if k.now.Load() != nil {
		return nil
	}
	k.turn.Lock()
	defer k.turn.Unlock()
	if k.now.Load() != nil { // another call has read them
		return nil
	}
	return k.refresh(ctx)
}

func (k *Known) of(tenant uuid.UUID) *participants {
	if v := k.now.Load(); v != nil {
		return v.tenants[tenant]
	}
	return nil
}

// Named returns a tenant's participant by name, or nil if this node has none. The result must not
// be changed.
func (k *Known) Named(tenant uuid.UUID, name string) *registry.Participant {
	if p := k.named(tenant, name); p != nil {
		return &p.Participant
	}
	return nil
}

func (k *Known) named(tenant uuid.UUID, name string) *named {
	if of := k.of(tenant); of != nil {
		return of.byName[name]
	}
	return nil
}

// Of returns the tenant's participant to which a call of this URL belongs, or nil if there is none.
// If several match, it is the one with the longest path. The result must not be changed.
func (k *Known) Of(tenant uuid.UUID, url string) *registry.Participant {
	of := k.of(tenant)
	if of == nil {
		return nil
	}
	at, ok := registry.PlaceOf(url)
	if !ok {
		return nil
	}
	for i := range of.byHost[at.Host] {
		if p := &of.byHost[at.Host][i]; p.Holds(&at) {
			return p.of
		}
	}
	return nil
}

// Wake makes the next round start immediately.
func (k *Known) Wake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Address implements engine.Config.Address. A name that this node does not have may have just been
// registered, so the store is read before the call fails.
func (k *Known) Address(ctx context.Context, c *saga.Call) (known bool, err error) {
	p := k.named(c.Tenant, c.By.Names())
	if p == nil {
		if err := k.Refresh(ctx); err != nil {
			return false, err
		}
		if p = k.named(c.Tenant, c.By.Names()); p == nil {
			return false, nil
		}
	}
	p.Settings.AddressWith(c, &p.standing)
	return true, nil
}

// Refresh reads what has changed.
func (k *Known) Refresh(ctx context.Context) error {
	k.turn.Lock()
	defer k.turn.Unlock()
	return k.refresh(ctx)
}

// refresh does what Refresh does; the caller holds k.turn.
func (k *Known) refresh(ctx context.Context) error {
	all, next, changed, err := k.rows.Changed(ctx, k.mark)
	if err != nil {
		return err
	}
	if !changed {
		k.now.CompareAndSwap(nil, &view{})
		return nil
	}
	k.mark = next
	k.now.Store(viewOf(all))
	return nil
}

func viewOf(all []registry.Participant) *view {
	v := &view{}
	if len(all) > 0 {
		v.tenants = map[uuid.UUID]*participants{}
	}
	for i := range all {
		p := &named{Participant: all[i], standing: registry.StandingOf(all[i].Settings.Headers)}
		of := v.tenants[p.TenantID]
		if of == nil {
			of = &participants{byName: map[string]*named{}, byHost: map[string][]placed{}}
			v.tenants[p.TenantID] = of
		}
		of.byName[p.Name] = p
		at, ok := registry.PlaceOf(p.Settings.BaseURL)
		if !ok {
			continue
		}
		list := of.byHost[at.Host]
		place := 0
		for place < len(list) && len(list[place].Path) >= len(at.Path) {
			place++
		}
		of.byHost[at.Host] = append(list[:place], append([]placed{{at, &p.Participant}}, list[place:]...)...)
	}
	return v
}

// Each calls f for every participant in the cache.
func (k *Known) Each(f func(*registry.Participant)) {
	v := k.now.Load()
	if v == nil {
		return
	}
	for _, of := range v.tenants {
		for _, p := range of.byName {
			f(&p.Participant)
		}
	}
}
