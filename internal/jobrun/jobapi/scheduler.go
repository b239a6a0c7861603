package jobapi

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/httpkit/dryrun"
	"github.com/skald-saga/skald/internal/jobrun"
)

// GetLeader returns the leader of the scheduler.
func (s *Handlers) GetLeader(ctx context.Context, _ api.GetLeaderRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	return s.leader(ctx)
}

func (s *Handlers) leader(ctx context.Context) (httpkit.Answer, error) {
	l, err := s.Elections.Leadership(ctx)
	if err != nil {
		return httpkit.Answer{}, err
	}
	out := api.SchedulerLeader{Alive: l.Alive, Epoch: l.Epoch, Standbys: make([]api.SchedulerNode, len(l.Standbys)),
		SweptAt: l.SweptAt}
	if l.Epoch > 0 {
		out.Node, out.LeaderID, out.AcquiredAt, out.ExpiresAt = httpkit.UnlessEmpty(l.Node), httpkit.UnlessNil(l.LeaderID),
			&l.AcquiredAt, &l.ExpiresAt
	}
	if !httpkit.RequestOf(ctx).Who.AnyTenant {
		// By default nodes are named by host and port, which tenants must not see.
		out.Node, out.Standbys = nil, []api.SchedulerNode{}
		return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
	}
	for i, st := range l.Standbys {
		out.Standbys[i] = api.SchedulerNode{Node: st.Node, LeaderID: st.LeaderID, StartedAt: st.StartedAt, SeenAt: st.SeenAt,
			IsLeader: st.IsLeader}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// StepDownLeader ends the current leader's term.
func (s *Handlers) StepDownLeader(ctx context.Context, in api.StepDownLeaderRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if err := httpkit.ForDeployment(ctx, "the scheduler"); err != nil {
		return nil, err
	}
	var reason *string
	if in.Body != nil {
		reason = in.Body.Reason
	}
	if err := httpkit.RequireReason(httpkit.Text(reason), "the scheduler serves all tenants, and nothing is scheduled until another node is elected"); err != nil {
		return nil, err
	}
	l, err := s.Elections.Leadership(ctx)
	if err != nil {
		return nil, err
	}
	if httpkit.DryRun(ctx) {
		return s.wouldStepDown(ctx, &l)
	}
	by := s.Did(ctx, s.Now(), operator.JobScheduler, l.Node, "step-down", httpkit.Text(reason),
		map[string]any{"epoch": l.Epoch})
	by.TenantID = operator.Deployment
	if err := s.Elections.ForceResign(ctx, by); err != nil {
		return nil, err
	}
	return s.leader(ctx)
}

// wouldStepDown responds to a dry run with the leadership as it would be until the next election.
// Fault: NoLeader.
func (s *Handlers) wouldStepDown(ctx context.Context, l *jobrun.Leadership) (api.Response, error) {
	if !l.Alive {
		return nil, jobrun.NoLeader()
	}
	a, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	before := a.Body.(api.SchedulerLeader)
	after := before
	after.Alive, after.Node, after.ExpiresAt = false, nil, new(s.Now())
	after.Standbys = slices.Clone(before.Standbys)
	for i := range after.Standbys {
		after.Standbys[i].IsLeader = false
	}
	from, to := before, after
	from.Standbys, to.Standbys = nil, nil // the other fields show who leads
	after.Changes, err = httpkit.Differences(from, to)
	a.Body = after
	return a, err
}

// GetSettings returns all settings of job runs.
func (s *Handlers) GetSettings(ctx context.Context, in api.GetSettingsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	a, err := s.settings(ctx)
	if err != nil {
		return nil, err
	}
	return a.Unchanged(in.Params.IfNoneMatch)
}

func (s *Handlers) settings(ctx context.Context) (httpkit.Answer, error) {
	values, version, err := s.Settings.SettingValues(ctx)
	if err != nil {
		return httpkit.Answer{}, err
	}
	out := api.Settings{Version: version, Settings: make([]api.Setting, len(values))}
	for i := range values {
		v := &values[i]
		out.Settings[i] = api.Setting{
			Name: v.Name, Value: v.Value, Default: v.Default, IsDefault: v.IsDefault, Minimum: v.Min, Maximum: v.Max,
			Unit: v.Unit, Integer: v.Integer || v.Switch,
			Effect: v.Effect, Description: v.Description, UpdatedAt: v.UpdatedAt,
		}
		if httpkit.RequestOf(ctx).Who.AnyTenant { // see ListSettingChanges
			out.Settings[i].UpdatedBy = httpkit.UnlessEmpty(v.UpdatedBy)
		}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out, ETag: httpkit.ETagOf(version)}, nil
}

// ChangeSettings changes all given settings or none. They apply to all tenants, so the caller needs
// a credential that may act for all tenants.
func (s *Handlers) ChangeSettings(ctx context.Context, in api.ChangeSettingsRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	if err := httpkit.ForDeployment(ctx, "a setting"); err != nil {
		return nil, err
	}
	var version int64
	if in.Params.IfMatch != nil {
		_, present, err := s.Settings.SettingValues(ctx)
		if err != nil {
			return nil, err
		}
		switch fits, err := httpkit.IfMatch(in.Params.IfMatch, present); {
		case err != nil:
			return nil, err
		case !fits:
			return nil, httpkit.Stale(jobrun.CodeStale, "settings", present)
		}
		version = present // the values that were read must still be current when these are written
	}
	if httpkit.DryRun(ctx) {
		return s.wouldSet(ctx, in.Body.Values)
	}
	subject := strings.Join(slices.Sorted(maps.Keys(in.Body.Values)), ",")
	if len(subject) > jobrun.MaxWord {
		subject = "settings"
	}
	detail, err := json.Marshal(in.Body.Values)
	if err != nil {
		return nil, fault.New(fault.Invalid, jobrun.CodeSetting, "all values must be numbers")
	}
	by := s.Did(ctx, s.Now(), operator.JobSettings, subject, "change", httpkit.Text(in.Body.Reason),
		json.RawMessage(detail))
	by.TenantID = operator.Deployment
	if _, err := s.Settings.ChangeSettings(ctx, version, in.Body.Values, by); err != nil {
		return nil, err
	}
	return s.settings(ctx)
}

// wouldSet responds to a dry run with the settings as they would be stored.
func (s *Handlers) wouldSet(ctx context.Context, values map[string]*float64) (httpkit.Answer, error) {
	present, version, err := s.Settings.SettingValues(ctx)
	if err != nil {
		return httpkit.Answer{}, err
	}
	stored := map[string]float64{}
	for i := range present {
		if v := &present[i]; !v.IsDefault {
			stored[v.Name] = v.Value
		}
	}
	for name, value := range values {
		if value == nil {
			delete(stored, name)
		} else {
			stored[name] = *value
		}
	}
	if err := jobrun.CheckSettings(values, jobrun.NewSettings(version, stored)); err != nil {
		return httpkit.Answer{}, err
	}
	a, err := s.settings(ctx)
	if err != nil {
		return a, err
	}
	out, all := a.Body.(api.Settings), dryrun.List{}
	for i := range out.Settings {
		o := &out.Settings[i]
		is, set := stored[o.Name]
		if !set {
			is = o.Default
		}
		all.Differs(o.Name, strconv.FormatFloat(o.Value, 'f', -1, 64), strconv.FormatFloat(is, 'f', -1, 64))
		o.Value, o.IsDefault = is, !set
	}
	out.Changes = httpkit.Planned(all)
	a.Body = out
	return a, nil
}

// ListSettingChanges returns the history of the settings. Only credentials that may act for all
// tenants see actors and reasons; others see the values.
func (s *Handlers) ListSettingChanges(ctx context.Context,
	in api.ListSettingChangesRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
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
		out.Changes[i] = api.SettingChange{Version: c.Version, Name: c.Name, OldValue: c.Old, NewValue: c.New,
			ChangedAt: c.At}
		if httpkit.RequestOf(ctx).Who.AnyTenant {
			out.Changes[i].ChangedBy, out.Changes[i].Reason = httpkit.UnlessEmpty(c.By), httpkit.UnlessEmpty(c.Reason)
		}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}
