package httpapi

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// GetLeader answers who leads the scheduler.
func (s *jobHandlers) GetLeader(ctx context.Context, _ api.GetLeaderRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.leader(ctx)
}

func (s *jobHandlers) leader(ctx context.Context) (answer, error) {
	l, err := s.Elections.Leadership(ctx)
	if err != nil {
		return answer{}, err
	}
	out := api.SchedulerLeader{Alive: l.Alive, Epoch: l.Epoch, Standbys: make([]api.SchedulerNode, len(l.Standbys)), SweptAt: l.SweptAt}
	if l.Epoch > 0 {
		out.Node, out.LeaderID, out.AcquiredAt, out.ExpiresAt = unlessEmpty(l.Node), unlessNil(l.LeaderID), &l.AcquiredAt, &l.ExpiresAt
	}
	if !requestOf(ctx).who.AnyTenant {
		// Nodes are named by host and port, unless somebody names them otherwise: no
		// business of a tenant.
		out.Node, out.Standbys = nil, []api.SchedulerNode{}
		return answer{status: http.StatusOK, body: out}, nil
	}
	for i, st := range l.Standbys {
		out.Standbys[i] = api.SchedulerNode{Node: st.Node, LeaderID: st.LeaderID, StartedAt: st.StartedAt, SeenAt: st.SeenAt, IsLeader: st.IsLeader}
	}
	return answer{status: http.StatusOK, body: out}, nil
}

// StepDownLeader ends the leadership of whoever leads.
func (s *jobHandlers) StepDownLeader(ctx context.Context, in api.StepDownLeaderRequestObject) (api.Response, error) {
	ctx, cancel := s.promised(ctx)
	defer cancel()
	if err := forDeployment(ctx, "the scheduler"); err != nil {
		return nil, err
	}
	var reason *string
	if in.Body != nil {
		reason = in.Body.Reason
	}
	if err := saysWhy(text(reason), "the scheduler serves all tenants, and nothing is scheduled until another node is elected"); err != nil {
		return nil, err
	}
	l, err := s.Elections.Leadership(ctx)
	if err != nil {
		return nil, err
	}
	by := s.did(ctx, s.now(), operator.JobScheduler, l.Node, "step-down", text(reason), map[string]any{"epoch": l.Epoch})
	by.TenantID = operator.Deployment
	if err := s.Elections.ForceResign(ctx, by); err != nil {
		return nil, err
	}
	return s.leader(ctx)
}

// GetSettings answers all settings of job runs.
func (s *jobHandlers) GetSettings(ctx context.Context, in api.GetSettingsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	a, err := s.settings(ctx)
	if err != nil {
		return nil, err
	}
	return a.unchanged(in.Params.IfNoneMatch)
}

func (s *jobHandlers) settings(ctx context.Context) (answer, error) {
	values, version, err := s.Settings.SettingValues(ctx)
	if err != nil {
		return answer{}, err
	}
	out := api.Settings{Version: version, Settings: make([]api.Setting, len(values))}
	for i := range values {
		v := &values[i]
		out.Settings[i] = api.Setting{
			Name: v.Name, Value: v.Value, Default: v.Default, IsDefault: v.IsDefault, Minimum: v.Min, Maximum: v.Max, Unit: v.Unit, Integer: v.Integer || v.Switch,
			Effect: v.Effect, Description: v.Description, UpdatedAt: v.UpdatedAt,
		}
		if requestOf(ctx).who.AnyTenant { // see ListSettingChanges
			out.Settings[i].UpdatedBy = unlessEmpty(v.UpdatedBy)
		}
	}
	return answer{status: http.StatusOK, body: out, etag: etagOf(version)}, nil
}

// ChangeSettings sets some, all or none. They are of all tenants, so that who may
// do it is for any tenant too.
func (s *jobHandlers) ChangeSettings(ctx context.Context, in api.ChangeSettingsRequestObject) (api.Response, error) {
	ctx, cancel := s.promised(ctx)
	defer cancel()
	if err := forDeployment(ctx, "a setting"); err != nil {
		return nil, err
	}
	var version int64
	if in.Params.IfMatch != nil {
		_, present, err := s.Settings.SettingValues(ctx)
		if err != nil {
			return nil, err
		}
		switch fits, err := ifMatch(in.Params.IfMatch, present); {
		case err != nil:
			return nil, err
		case !fits:
			return nil, stale(jobrun.CodeStale, "settings", present)
		}
		version = present // and no other when they are written
	}
	subject := strings.Join(slices.Sorted(maps.Keys(in.Body.Values)), ",")
	if len(subject) > jobrun.MaxWord {
		subject = "settings"
	}
	detail, err := json.Marshal(in.Body.Values)
	if err != nil {
		return nil, fault.New(fault.Invalid, jobrun.CodeSetting, "the values must be numbers")
	}
	by := s.did(ctx, s.now(), operator.JobSettings, subject, "change", text(in.Body.Reason), json.RawMessage(detail))
	by.TenantID = operator.Deployment
	if _, err := s.Settings.ChangeSettings(ctx, version, in.Body.Values, by); err != nil {
		return nil, err
	}
	return s.settings(ctx)
}

// ListSettingChanges answers who changed what. By whom and why is the deployment's
// own affair: a tenant sees what the values were.
func (s *jobHandlers) ListSettingChanges(ctx context.Context, in api.ListSettingChangesRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	limit := 100
	if in.Params.Limit != nil {
		limit = int(*in.Params.Limit)
	}
	changes, err := s.Settings.SettingsHistory(ctx, limit)
	if err != nil {
		return nil, err
	}
	out := api.SettingChangeList{Changes: make([]api.SettingChange, len(changes))}
	for i := range changes {
		c := &changes[i]
		out.Changes[i] = api.SettingChange{Version: c.Version, Name: c.Name, OldValue: c.Old, NewValue: c.New, ChangedAt: c.At}
		if requestOf(ctx).who.AnyTenant {
			out.Changes[i].ChangedBy, out.Changes[i].Reason = unlessEmpty(c.By), unlessEmpty(c.Reason)
		}
	}
	return answer{status: http.StatusOK, body: out}, nil
}
