// Package secrets decides which participant may receive which secret, holds the values of secrets,
// and hides them in the answers of participants (decision 0149).
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

// Directory provides the registered participants, as known to this node.
type Directory interface {
	Named(tenant uuid.UUID, name string) *registry.Participant
	Of(tenant uuid.UUID, url string) *registry.Participant
	Refresh(ctx context.Context) error
}

// Bound contains the secrets that this server gives to participants. A nil Bound contains none.
type Bound struct {
	known Directory
	sets  map[uuid.UUID]map[string]*Set
	reads bool
}

// New returns the secrets of bindings. values has their values in the same order. reads means that
// this node makes calls, so that values contains the secrets.
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

var errNowhere = errors.New("only registered participants get secrets, and the URL belongs to none")

// Of returns the secrets of the participant that receives a call, or nil if it has none. needed
// means that the call uses secrets, so that their absence is an error.
func (b *Bound) Of(ctx context.Context, c *saga.Call, needed bool) (*Set, error) {
	sets := b.sets[c.Tenant]
	if sets == nil && !needed {
		return nil, nil //nolint:nilnil // the usual call
	}
	name := c.By.HTTP.Participant
	if name == "" {
		p := b.known.Of(c.Tenant, c.By.HTTP.URL)
		if p == nil && needed && b.known.Refresh(ctx) == nil { // it may have just been registered
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

// Hides returns the Hider for the secrets of the participant that received a call, for use on its
// later reports. It returns an error if this node does not know the secrets that it would have to
// hide.
func (b *Bound) Hides(ctx context.Context, c *saga.Call) (*Hider, error) {
	set, err := b.Of(ctx, c, false)
	switch {
	case err != nil || set == nil:
		return nil, err
	case !b.reads:
		return nil, errors.New("the participant has secrets, which this node does not read because it does not have the role engine")
	}
	return set.Hider(), nil
}

// Refusal returns the reason why a participant with this base URL does not get a secret, or "" if
// it does.
func (b *Bound) Refusal(tenant uuid.UUID, participant, secret, baseURL string) string {
	var of *registry.Binding
	if b != nil && b.sets[tenant][participant] != nil {
		of = &b.sets[tenant][participant].binding
	}
	return of.Refusal(participant, secret, baseURL)
}

// Allowed returns the reason why a call of a definition must not use a secret, or nil if it may.
func (b *Bound) Allowed(tenant uuid.UUID, by *workflow.Call, secret string) error {
	name, base := by.Names(), ""
	if _, url := by.Endpoint(); name == "" {
		var p *registry.Participant
		if b != nil {
			p = b.known.Of(tenant, url)
		}
		if p == nil {
			return fmt.Errorf("only registered participants get secrets, and this URL belongs to none: register it with "+
				"PUT /participants/NAME, and bind %q to that name under participant_secrets in the configuration", secret)
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
