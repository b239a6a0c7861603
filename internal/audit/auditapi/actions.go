package auditapi

import (
	"cmp"
	"context"
	"encoding/hex"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/rest"
)

// ListActions returns a page of operators' actions, newest first.
func (s *Handlers) ListActions(ctx context.Context, in api.ListActionsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	p := in.Params
	tenant, err := scopeOfRecord(ctx, p.Scope)
	if err != nil {
		return nil, err
	}
	asked, err := rest.PageOf(ctx, s.Cursors, rest.ByTime, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := operator.Filter{
		Kind: operator.Kind(rest.Text(p.Kind)), Subject: rest.Text(p.Subject), Actor: rest.Text(p.Actor),
		Verb:      rest.Text(p.Verb),
		Operation: rest.Text(p.Operation), RequestID: rest.Text(p.RequestID),
		ByTime: asked.Request,
	}
	if f.From, err = rest.TimeOf("from", p.From); err != nil {
		return nil, err
	}
	if f.To, err = rest.TimeOf("to", p.To); err != nil {
		return nil, err
	}
	found, err := s.Actions.Actions(ctx, tenant, f)
	if err != nil {
		return nil, err
	}
	return rest.Answer{Status: http.StatusOK, Body: api.ActionList{
		Actions:    rest.Each(found.Items, toAPIAction),
		Pagination: rest.Pagination(asked, found, (*operator.Action).Place),
	}}, nil
}

// scopeOfRecord returns the tenant whose actions are requested. Fault: Forbidden.
func scopeOfRecord(ctx context.Context, scope *api.AuditScope) (uuid.UUID, error) {
	if scope == nil || *scope == api.AuditScopeTenant {
		return rest.RequestOf(ctx).Tenant.ID, nil
	}
	return operator.Deployment, rest.ForDeployment(ctx, "the record of the deployment")
}

func toAPIAction(a *operator.Action) api.Action {
	return api.Action{
		ID: a.ID, At: a.At, Kind: api.ActionKind(a.Kind), Subject: a.Subject, Verb: a.Verb, Actor: rest.UnlessEmpty(a.Actor),
		Reason: rest.UnlessEmpty(a.Reason), RequestID: rest.UnlessEmpty(a.RequestID), Detail: a.Detail,
		CredentialID: rest.UnlessNil(a.Credential), Address: rest.UnlessEmpty(a.Address),
		Operation:  rest.UnlessEmpty(a.Operation),
		BeforeHash: rest.UnlessEmpty(hex.EncodeToString(a.Before)), AfterHash: rest.UnlessEmpty(hex.EncodeToString(a.After)),
		Result: new(api.ActionResult(cmp.Or(a.Result, operator.Done))),
	}
}
