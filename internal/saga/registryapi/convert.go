package registryapi

import (
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/secrets"
)

func settingsOf(b *api.ParticipantInput) registry.Settings {
	s := registry.Settings{BaseURL: b.BaseURL, TimeoutMS: or(b.TimeoutMS), MaxInFlight: int(or(b.MaxInFlight))}
	if b.Headers != nil && len(*b.Headers) > 0 {
		s.Headers = *b.Headers
	}
	if o := b.Outage; o != nil {
		s.Outage = registry.Outage{
			FailureRatio: or(o.FailureRatio), MinCalls: or(o.MinCalls), WindowMS: or(o.WindowMS),
			CanaryEveryMS: or(o.CanaryEveryMS),
		}
		if r := o.Release; r != nil {
			s.Outage.Release = registry.Release{StartPerS: or(r.StartPerS), Factor: or(r.Factor)}
		}
	}
	return s
}

// or returns the given value, or zero if there is none.
func or[T any](given *T) (v T) {
	if given != nil {
		v = *given
	}
	return v
}

func toAPI(p *registry.Participant) api.Participant {
	o, g := p.Settings.Outage, &p.Gate
	out := api.Participant{
		Name: p.Name, BaseURL: p.Settings.BaseURL, Headers: api.ParticipantHeaders{},
		Outage: api.ParticipantOutage{
			FailureRatio: &o.FailureRatio, MinCalls: &o.MinCalls, WindowMS: &o.WindowMS, CanaryEveryMS: &o.CanaryEveryMS,
			Release: &api.ParticipantRelease{StartPerS: &o.Release.StartPerS, Factor: &o.Release.Factor},
		},
		State: api.ParticipantState(g.State), Since: g.Since, Reason: httpkit.UnlessEmpty(g.Reason),
		HeldBy: httpkit.UnlessEmpty(g.HeldBy), NextCanaryAt: g.NextCanary,
		CreatedBy: p.CreatedBy, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt, Version: p.Version,
	}
	if p.Settings.Headers != nil {
		out.Headers = p.Settings.Headers
	}
	if p.Settings.TimeoutMS > 0 {
		out.TimeoutMS = &p.Settings.TimeoutMS
	}
	if n := p.Settings.MaxInFlight; n > 0 {
		out.MaxInFlight = new(int32(n)) //nolint:gosec // the contract limits it
	}
	if g.State == registry.Releasing {
		out.RatePerS = new(g.ShownRate())
	}
	return out
}

func releaseOf(p *registry.Past) api.ParticipantOutagePast {
	return api.ParticipantOutagePast{
		HeldAt: p.HeldAt, Reason: p.Reason, HeldBy: httpkit.UnlessEmpty(p.HeldBy), ReleaseBeganAt: p.ReleasingAt,
		ReleasedAt: p.ReleasedAt, LastedMS: p.ReleasedAt.Sub(p.HeldAt).Milliseconds(), Waited: p.Waited,
	}
}

// GateWait describes a wait at the gate of p and its reason. It returns nil if p is nil.
func GateWait(p *registry.Participant, now time.Time) *api.GateWait {
	if p == nil {
		return nil
	}
	return &api.GateWait{
		Participant: p.Name, State: api.ParticipantState(p.Gate.State), Since: p.Gate.Since, Summary: p.WaitsAt(now),
		NextCanaryAt: p.Gate.NextCanary,
	}
}

func secretOf(s *secrets.Named) api.ParticipantSecret {
	out := api.ParticipantSecret{Name: s.Name, Source: api.ParticipantSecretSource(s.State.Kind)}
	if s.Reads {
		out.Readable, out.Why = &s.State.Readable, httpkit.UnlessEmpty(s.State.Why)
		if at := s.State.ReadAt; !at.IsZero() {
			out.ReadAt = new(at.UTC().Truncate(time.Millisecond))
		}
	}
	return out
}

func figuresOf(f *registry.Figures) *api.ParticipantFigures {
	out := &api.ParticipantFigures{Calls: f.Calls, Failed: f.Failed, ByCode: f.Codes}
	if f.Calls > 0 {
		out.P50Ms = new(f.Percentile(0.5).Milliseconds())
		out.P95Ms = new(f.Percentile(0.95).Milliseconds())
		out.P99Ms = new(f.Percentile(0.99).Milliseconds())
	}
	return out
}
