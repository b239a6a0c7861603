// Package secrets knows which participant may get which secret, their values, and what hides these in the answers of
// participants (decision 0149).
//
// Files, each on top of those before it: forms, hider, set, secrets.
package secrets

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/workflow"
	"github.com/skald-saga/skald/internal/secret/keeper"
)

// Directory are the registered participants, as this node knows them.
type Directory interface {
	Named(tenant uuid.UUID, name string) *registry.Participant
	Of(tenant uuid.UUID, url string) *registry.Participant
	Refresh(ctx context.Context) error
}

// Bound are the secrets that this server gives to participants. A nil Bound has none.
type Bound struct {
	known Directory
	sets  map[uuid.UUID]map[string]*Set
	reads bool
}

// New returns the secrets of bindings, whose values are those of values in the same order. reads: this node makes
// calls, so values has them.
func New(known Directory, values Values, reads bool, bindings []registry.Binding) *Bound {
	b := &Bound{known: known, sets: map[uuid.UUID]map[string]*Set{}, reads: reads}
	first := 0
	for _, of := range bindings {
		if b.sets[of.TenantID] == nil {
			b.sets[of.TenantID] = map[string]*Set{}
		}
		b.sets[of.TenantID][of.Participant] = &Set{binding: of, values: values, first: first}
		first += len(of.Secrets)
	}
	return b
}

var errNowhere = errors.New("its URL is that of no registered participant, which alone gets secrets")

// Of returns the secrets of the participant that a call goes to, nil if it has none. needed: the call has secrets, so
// why there are none is an error.
func (b *Bound) Of(ctx context.Context, c *saga.Call, needed bool) (*Set, error) {
	sets := b.sets[c.Tenant]
	if sets == nil && !needed {
		return nil, nil //nolint:nilnil // the usual call
	}
	name := c.By.HTTP.Participant
	if name == "" {
		p := b.known.Of(c.Tenant, c.By.HTTP.URL)
		if p == nil && needed && b.known.Refresh(ctx) == nil { // it may have been registered a moment ago
			p = b.known.Of(c.Tenant, c.By.HTTP.URL)
		}
		switch {
		case p == nil && needed:
			return nil, errNowhere
		case p == nil:
			return nil, nil //nolint:nilnil // the usual call
		}
		name = p.Name
	}
	set := sets[name]
	if set == nil && needed {
		return nil, fmt.Errorf("no secret is bound to participant %q on this node", name)
	}
	return set, nil
}

// Hides returns what hides the secrets of the participant that a call has gone to in what it reports later. The error
// says that this node does not know the secrets that it would have to hide.
func (b *Bound) Hides(ctx context.Context, c *saga.Call) (*Hider, error) {
	set, err := b.Of(ctx, c, false)
	switch {
	case err != nil || set == nil:
		return nil, err
	case !b.reads:
		return nil, errors.New("the participant has secrets, and this node does not read them, as it has no role engine")
	}
	return set.Hider(), nil
}

// Refusal returns why a participant with this base URL does not get a secret, "" if it does.
func (b *Bound) Refusal(tenant uuid.UUID, participant, secret, baseURL string) string {
	var of *registry.Binding
	if b != nil && b.sets[tenant][participant] != nil {
		of = &b.sets[tenant][participant].binding
	}
	return of.Refusal(participant, secret, baseURL)
}

// Allowed returns why a call of a definition may not have a secret, nil if it may.
func (b *Bound) Allowed(tenant uuid.UUID, by *workflow.Call, secret string) error {
	name, base := by.Names(), ""
	if _, url := by.Endpoint(); name == "" {
		var p *registry.Participant
		if b != nil {
			p = b.known.Of(tenant, url)
		}
		if p == nil {
			return fmt.Errorf("only a registered participant gets secrets, and this URL is that of none: register it with "+
				"PUT /participants/NAME, and bind %q to that name under participant_secrets of the configuration", secret)
		}
		name, base = p.Name, p.Settings.BaseURL
	} else if b != nil {
		if p := b.known.Named(tenant, name); p != nil {
			base = p.Settings.BaseURL
		}
	}
	if why := b.Refusal(tenant, name, secret, base); why != "" {
		return errors.New(why)
	}
	return nil
}

// Named is a secret of a participant.
type Named struct {
	Name  string
	Reads bool // this node reads it; otherwise only the kind of State is known
	State keeper.State
}

// List returns the secrets of a participant, by name.
func (b *Bound) List(tenant uuid.UUID, participant string) (all []Named) {
	if b == nil || b.sets[tenant][participant] == nil {
		return nil
	}
	set := b.sets[tenant][participant]
	for i, name := range set.binding.Secrets {
		all = append(all, Named{name, b.reads, set.values.State(set.first + i)})
	}
	return all
}
