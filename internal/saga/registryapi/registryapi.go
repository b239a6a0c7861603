// Package registryapi is the HTTP edge of named participants.
//
// Files, each on top of those before it: convert, registryapi.
package registryapi

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/secrets"
	"github.com/skald-saga/skald/internal/strictjson"
)

// Handlers implements the operations on participants. Every field except CheckEndpoint is required.
type Handlers struct {
	*httpkit.Kit
	Participants registry.Store
	Gates        registry.Gates
	// CheckEndpoint returns why no call could ever reach a base URL, or "" if one can. The text is
	// shown to the tenant. nil accepts every URL.
	CheckEndpoint func(url string) (reason string)
	// Secrets are the secrets that participants may receive. nil means none.
	Secrets *secrets.Bound
	// Changed is called after a change, so that the nodes read it immediately.
	Changed func()
}

// ListParticipants returns a page of participants, ordered by name.
func (s *Handlers) ListParticipants(ctx context.Context, in api.ListParticipantsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	p := in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByName, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := registry.Filter{Name: httpkit.Text(p.Name), Request: asked.Request}
	if p.State != nil {
		f.State = registry.State(*p.State)
	}
	found, err := s.Participants.List(ctx, httpkit.RequestOf(ctx).Tenant.ID, f)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.ParticipantList{
		Participants: httpkit.Each(found.Items, toAPI),
		Pagination:   httpkit.Pagination(asked, found, func(p *registry.Participant) string { return p.Name }),
	}}, nil
}

// GetParticipant returns a participant.
func (s *Handlers) GetParticipant(ctx context.Context, in api.GetParticipantRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	p, err := s.Participants.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.Name)
	if err != nil {
		return nil, err
	}
	a := answer(&p, nil)
	f, err := s.Gates.Figures(ctx, p.TenantID, p.Name, s.Now().Add(-time.Hour))
	if err != nil {
		return nil, err
	}
	past, err := s.Gates.Past(ctx, p.TenantID, p.Name)
	if err != nil {
		return nil, err
	}
	out := a.Body.(api.Participant)
	out.Waiting, out.InFlight, out.LastHour = &f.Waiting, &f.InFlight, figuresOf(&f)
	out.WaitingLetters, out.WaitingWebhooks = &f.Letters, &f.Webhooks
	out.LastReleases = httpkit.Each(past, releaseOf)
	if all := s.Secrets.List(p.TenantID, p.Name); all != nil {
		out.Secrets = httpkit.Each(all, secretOf)
	}
	a.Body = out
	return a, nil
}

// AtGate returns the gate at which a saga waits and its state, or nil if it waits at none.
func AtGate(
	ctx context.Context, store registry.Store, gates registry.Gates, of saga.Ref, now time.Time,
) (*saga.AtGate, error) {
	w, err := gates.Wait(ctx, of)
	if err != nil || w == nil {
		return nil, err
	}
	p, err := store.Get(ctx, of.Tenant, w.Participant)
	if fault.IsCode(err, registry.CodeNotFound) {
		return nil, nil //nolint:nilnil // the participant was deleted, and its sagas are due
	}
	return &saga.AtGate{
		Participant: w.Participant, Call: w.Call, Since: w.Since, Waiting: w.Waiting, Gate: p.Gate.Sentence(now),
		NextAt: p.Gate.NextCanary,
	}, err
}

// PutParticipant registers a participant or replaces its settings.
func (s *Handlers) PutParticipant(ctx context.Context, in api.PutParticipantRequestObject) (api.Response, error) {
	settings, err := settingsOf(in.Body).Checked(in.Name)
	if err != nil {
		return nil, err
	}
	if s.CheckEndpoint != nil {
		if why := s.CheckEndpoint(settings.BaseURL); why != "" {
			return nil, fault.New(fault.Invalid, registry.CodeURL, "/base_url: %s", why).
				With(fault.Field{Pointer: "/base_url", Code: registry.CodeURL, Message: why})
		}
	}
	req := httpkit.RequestOf(ctx)
	if err := s.refused(req.Tenant.ID, in.Name, &settings); err != nil {
		return nil, err
	}
	return s.change(ctx, in.Name, in.Params.IfMatch, in.Body.Reason, registry.VerbPut,
		func(present *registry.Participant) (after registry.Participant, changed bool) {
			if present == nil {
				return registry.New(req.Tenant.ID, in.Name, settings, req.Principal, s.Now()), true
			}
			return present.With(settings, s.Now()), true
		})
}

// refused is the fault for headers that contain secrets which a participant with these settings
// must not receive.
func (s *Handlers) refused(tenant uuid.UUID, name string, settings *registry.Settings) error {
	var wrong fault.Mistakes
	for _, header := range slices.Sorted(maps.Keys(settings.Headers)) {
		for _, secret := range registry.SecretsIn(settings.Headers[header]) {
			if why := s.Secrets.Refusal(tenant, name, secret, settings.BaseURL); why != "" {
				wrong.Add("/headers/"+strictjson.Token(header), registry.CodeSecret, "%s", why)
			}
		}
	}
	if wrong == nil {
		return nil
	}
	return httpkit.FieldsFault(fault.Invalid, registry.CodeSecret, wrong)
}

// HoldParticipant holds a participant until an operator releases it.
func (s *Handlers) HoldParticipant(ctx context.Context, in api.HoldParticipantRequestObject) (api.Response, error) {
	req, reason := httpkit.RequestOf(ctx), httpkit.ReasonOf(in.Body)
	return s.change(ctx, in.Name, in.Params.IfMatch, reason, registry.VerbHold,
		func(present *registry.Participant) (after registry.Participant, changed bool) {
			return present.Hold(req.Principal, req.Who.Name, httpkit.Text(reason), s.Now()), true
		})
}

// ReleaseParticipant lets the calls that wait for a participant through.
func (s *Handlers) ReleaseParticipant(
	ctx context.Context, in api.ReleaseParticipantRequestObject,
) (api.Response, error) {
	var reason *string
	rate := 0.0
	if b := in.Body; b != nil {
		reason = b.Reason
		if b.Rate != nil {
			rate = float64(*b.Rate)
		}
	}
	return s.change(ctx, in.Name, in.Params.IfMatch, reason, registry.VerbRelease,
		func(present *registry.Participant) (after registry.Participant, changed bool) {
			return present.Release(who(ctx), rate, s.Now())
		})
}

// who is the caller's display name for sentences.
func who(ctx context.Context) string {
	req := httpkit.RequestOf(ctx)
	if req.Who.Name != "" {
		return req.Who.Name
	}
	return req.Principal
}

// change reads a participant, makes a decision and stores it. It starts over if the participant was
// changed in the meantime. present is nil if there is none, which only VerbPut allows.
func (s *Handlers) change(
	ctx context.Context, name string, match, reason *string, verb string,
	decide func(present *registry.Participant) (after registry.Participant, changed bool),
) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	for range httpkit.Reloads(ctx) {
		present, err := s.Participants.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, name)
		there := &present
		if verb == registry.VerbPut && fault.IsCode(err, registry.CodeNotFound) {
			there, err = nil, nil
		}
		if err != nil {
			return nil, err
		}
		switch fits, err := httpkit.IfMatch(match, present.Version); {
		case err != nil:
			return nil, err
		case !fits:
			return nil, httpkit.Stale(registry.CodeStale, "participant", present.Version)
		}
		after, changed := decide(there)
		if !changed {
			return answer(&present, planIf(ctx, nil)), nil
		}
		if httpkit.DryRun(ctx) {
			return wouldBe(there, after)
		}
		epoch := present.Epoch
		if verb == registry.VerbPut {
			epoch = 0
		}
		switch err := s.Participants.Put(httpkit.WithActor(ctx, reason), after, epoch, verb); {
		case err == nil:
			s.Changed()
			return answer(&after, nil), nil
		case !fault.IsCode(err, registry.CodeStale):
			return nil, err
		}
	}
	return nil, httpkit.KeepsChanging("participant")
}

// planIf returns the changes that a dry run would make, or nil if the call is not a dry run.
func planIf(ctx context.Context, all dryrun.List) *api.PlannedChanges {
	if !httpkit.DryRun(ctx) {
		return nil
	}
	return httpkit.Planned(all)
}

// wouldBe answers a dry run.
func wouldBe(present *registry.Participant, after registry.Participant) (api.Response, error) {
	if present == nil {
		after.Version = 0
		return answer(&after, httpkit.Planned(dryrun.List{{Member: "participant", To: after.Settings.BaseURL}})), nil
	}
	after.Version = present.Version
	changes, err := httpkit.Differences(toAPI(present), toAPI(&after))
	if err != nil {
		return nil, err
	}
	return answer(&after, changes), nil
}

// DeleteParticipant removes a participant.
func (s *Handlers) DeleteParticipant(
	ctx context.Context, in api.DeleteParticipantRequestObject,
) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	tenant, dry := httpkit.RequestOf(ctx).Tenant.ID, httpkit.DryRun(ctx)
	var version int64
	if in.Params.IfMatch != nil || dry {
		p, err := s.Participants.Get(ctx, tenant, in.Name)
		if err != nil {
			return nil, err
		}
		switch fits, err := httpkit.IfMatch(in.Params.IfMatch, p.Version); {
		case err != nil:
			return nil, err
		case !fits:
			return nil, httpkit.Stale(registry.CodeStale, "participant", p.Version)
		}
		if version = p.Version; dry {
			return answer(&p, httpkit.Planned(dryrun.List{{Member: "place", From: "live"}})), nil
		}
	}
	if err := s.Participants.Delete(httpkit.WithActor(ctx, in.Params.Reason), tenant, in.Name, version); err != nil {
		return nil, err
	}
	s.Changed()
	return httpkit.Answer{Status: http.StatusNoContent}, nil
}

// answer builds an answer with a participant. In a dry run it includes the changes.
func answer(p *registry.Participant, changes *api.PlannedChanges) httpkit.Answer {
	out := toAPI(p)
	out.Changes = changes
	return httpkit.Answer{Status: http.StatusOK, Body: out, ETag: httpkit.ETagOf(p.Version)}
}
