package jobapi

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
)

const (
	verbReplace = "replace"
	verbDelete  = "delete"
	verbPause   = "pause"
	verbResume  = "resume"
)

// changeDefinition reads a definition, decides, and stores the decision. If the definition was
// changed concurrently, it starts over. A decision that changes nothing returns the definition
// unchanged.
func (s *Handlers) changeDefinition(ctx context.Context, ref string, match *string, verb, reason string,
	decide func(jobrun.Definition, time.Time) (jobrun.Definition, error)) (httpkit.Answer, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	for range httpkit.Reloads(ctx) {
		before, err := s.definitionAt(ctx, ref, match)
		if err != nil {
			return httpkit.Answer{}, err
		}
		now, err := s.jobsNow(ctx)
		if err != nil {
			return httpkit.Answer{}, err
		}
		d, err := decide(before, now)
		if err != nil {
			return httpkit.Answer{}, err
		}
		dry := httpkit.DryRun(ctx)
		if same(&before, &d) && !dry {
			return s.definitionAnswer(&before), nil
		}
		if d.SpecVersion != before.SpecVersion {
			if err := s.mayStore(&d.Spec); err != nil {
				return httpkit.Answer{}, err
			}
			if err := s.mayRun(ctx, &d, nil); err != nil {
				return httpkit.Answer{}, err
			}
		}
		if dry {
			return s.definitionWould(ctx, &before, &d)
		}
		d.Version, d.UpdatedAt, d.UpdatedBy = before.Version+1, now, httpkit.RequestOf(ctx).Principal
		switch err := s.Definitions.Change(ctx, d, s.toDefinition(ctx, &d, verb, reason)); {
		case err == nil:
			return s.definitionAnswer(&d), nil
		case !fault.IsCode(err, jobrun.CodeStale):
			return httpkit.Answer{}, err
		}
	}
	return httpkit.Answer{}, httpkit.KeepsChanging("job definition")
}

// definitionAt reads a definition in order to change it. Faults: NotFound if it does not exist or
// is deleted; Precondition if match specifies another version.
func (s *Handlers) definitionAt(ctx context.Context, ref string, match *string) (jobrun.Definition, error) {
	d, err := s.Definitions.Definition(ctx, httpkit.RequestOf(ctx).Tenant.ID, ref)
	if err != nil {
		return d, err
	}
	if d.DeletedAt != nil {
		return d, fault.New(fault.NotFound, jobrun.CodeNotFound, "the job definition %s has been deleted", ref)
	}
	switch fits, err := httpkit.IfMatch(match, d.Version); {
	case err != nil:
		return d, err
	case !fits:
		return d, httpkit.Stale(jobrun.CodeStale, "job definition", d.Version)
	}
	return d, nil
}

// same reports whether there is nothing to store.
func same(a, b *jobrun.Definition) bool {
	at := func(p *time.Time) time.Time {
		if p == nil {
			return time.Time{}
		}
		return *p
	}
	return a.Name == b.Name && a.SpecVersion == b.SpecVersion && a.Enabled == b.Enabled &&
		a.PauseReason == b.PauseReason &&
		at(a.PausedAt).Equal(at(b.PausedAt)) && at(a.PausedUntil).Equal(at(b.PausedUntil))
}

// changedBy returns the definition with the name and spec in the body. If the schedule has changed
// or the definition was enabled, its slots count from now on.
func changedBy(d jobrun.Definition, b *definitionBody, now time.Time) (jobrun.Definition, error) {
	before := d
	d.Name, d.Spec = b.Name, b.Complete()
	if b.Enabled != nil {
		d.Enabled = *b.Enabled
	}
	if d.BuiltIn {
		return builtInChanged(d, &before, now)
	}
	if err := jobrun.CheckNew(d.Name, &d.Spec); err != nil {
		return d, err
	}
	return respecified(d, &before, now), nil
}

// builtInChanged is changedBy for a built-in definition. Some fields of such a definition cannot be
// changed.
func builtInChanged(d jobrun.Definition, before *jobrun.Definition, now time.Time) (jobrun.Definition, error) {
	if d.Name != before.Name || d.Spec.CommandName != before.Spec.CommandName || d.Spec.Queue != before.Spec.Queue ||
		d.Spec.Type != before.Spec.Type {
		return d, fault.New(fault.Conflict, jobrun.CodeBuiltIn, "the job definition is built in: its name, type, command_name and queue cannot be changed")
	}
	if err := jobrun.Check(d.Name, &d.Spec); err != nil {
		return d, err
	}
	return respecified(d, before, now), nil
}

func respecified(d jobrun.Definition, before *jobrun.Definition, now time.Time) jobrun.Definition {
	if !encodesAlike(d.Spec, before.Spec) {
		d.SpecVersion++
	}
	if !encodesAlike(d.Spec.Schedule, before.Spec.Schedule) || d.Enabled != before.Enabled {
		d = d.Rescheduled(now)
	}
	return d
}

// encodesAlike reports whether two values encode to the same JSON.
func encodesAlike(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// ReplaceJobDefinition replaces the spec of a definition.
func (s *Handlers) ReplaceJobDefinition(ctx context.Context,
	in api.ReplaceJobDefinitionRequestObject) (api.Response, error) {
	b, err := DefinitionSent(httpkit.RequestOf(ctx).Body)
	if err != nil {
		return nil, err
	}
	return s.changeDefinition(ctx, in.Definition, in.Params.IfMatch, verbReplace, b.Reason,
		func(d jobrun.Definition, now time.Time) (jobrun.Definition, error) {
			return changedBy(d, &b, now)
		})
}

// UpdateJobDefinition changes individual members of a definition.
func (s *Handlers) UpdateJobDefinition(ctx context.Context,
	in api.UpdateJobDefinitionRequestObject) (api.Response, error) {
	body := httpkit.RequestOf(ctx).Body
	given, err := DefinitionSent(body)
	if err != nil {
		return nil, err
	}
	return s.changeDefinition(ctx, in.Definition, in.Params.IfMatch, httpkit.VerbUpdate, given.Reason,
		func(d jobrun.Definition, now time.Time) (jobrun.Definition, error) {
			b, err := overlaid(&d, body)
			if err != nil {
				return d, err
			}
			return changedBy(d, &b, now)
		})
}

// overlaid returns the definition as a request body in which the members of the canonical body
// replace its own.
func overlaid(d *jobrun.Definition, body []byte) (definitionBody, error) {
	doc, err := json.Marshal(definitionBody{Name: d.Name, Spec: d.Spec})
	if err != nil {
		return definitionBody{}, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(doc, &all); err != nil {
		return definitionBody{}, err
	}
	for name, value := range httpkit.Members(body) {
		all[name] = value
	}
	if doc, err = json.Marshal(all); err != nil {
		return definitionBody{}, err
	}
	return DefinitionSent(doc)
}

// PauseJobDefinition stops a definition from starting runs by schedule or event.
func (s *Handlers) PauseJobDefinition(ctx context.Context,
	in api.PauseJobDefinitionRequestObject) (api.Response, error) {
	b := in.Body
	if b == nil {
		b = &api.JobPauseInput{}
	}
	return s.changeDefinition(ctx, in.Definition, in.Params.IfMatch, verbPause, httpkit.Text(b.Reason),
		func(d jobrun.Definition, now time.Time) (jobrun.Definition, error) {
			if b.Until != nil && (!b.Until.After(now) || b.Until.UTC().Year() > 9999) {
				return d, fault.New(fault.Invalid, jobrun.CodeInvalid, "/until must be in the future, and before the year 10000").
					With(fault.Field{Pointer: "/until", Code: "out_of_range", Message: "must be in the future, and before the year 10000"})
			}
			if !d.Paused(now) {
				d.PausedAt = &now
			}
			d.PausedUntil, d.PauseReason = nil, httpkit.Text(b.Reason)
			if b.Until != nil {
				d.PausedUntil = new(b.Until.UTC().Truncate(time.Microsecond))
			}
			return d, nil
		})
}

// ResumeJobDefinition ends a pause.
func (s *Handlers) ResumeJobDefinition(ctx context.Context,
	in api.ResumeJobDefinitionRequestObject) (api.Response, error) {
	var reason string
	if in.Body != nil {
		reason = httpkit.Text(in.Body.Reason)
	}
	return s.changeDefinition(ctx, in.Definition, in.Params.IfMatch, verbResume, reason,
		func(d jobrun.Definition, now time.Time) (jobrun.Definition, error) {
			if d.Paused(now) {
				// The pause is kept and given an end: slots in it that the leader has not processed
				// yet are recorded as skipped and are not lost (J8).
				d.PausedUntil = &now
			}
			return d, nil
		})
}

// DeleteJobDefinition deletes a definition. Its runs are kept.
func (s *Handlers) DeleteJobDefinition(ctx context.Context,
	in api.DeleteJobDefinitionRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	p := in.Params
	force := p.Force != nil && *p.Force
	if force && strings.TrimSpace(httpkit.Text(p.Reason)) == "" {
		return nil, httpkit.SchemaFault(fault.Field{Parameter: "reason", Code: "required", Message: "is required: force cancels runs, so the audit trail must say why"})
	}
	for range httpkit.Reloads(ctx) {
		d, err := s.definitionAt(ctx, in.Definition, p.IfMatch)
		if err != nil {
			return nil, err
		}
		if d.BuiltIn {
			return nil, fault.New(fault.Conflict, jobrun.CodeBuiltIn, "the job definition is built in and cannot be deleted: pause it instead")
		}
		now := s.Now()
		if httpkit.DryRun(ctx) {
			return s.wouldDelete(ctx, &d, force, now)
		}
		switch err := s.Definitions.Delete(ctx, d, force, s.toDefinition(ctx, &d, verbDelete, httpkit.Text(p.Reason))); {
		case err == nil:
			d.Version, d.DeletedAt, d.NextDueAt, d.UpdatedAt, d.UpdatedBy = d.Version+1, &now, nil, now,
				httpkit.RequestOf(ctx).Principal
			return s.definitionAnswer(&d), nil
		case !fault.IsCode(err, jobrun.CodeStale):
			return nil, err
		}
	}
	return nil, httpkit.KeepsChanging("job definition")
}
