package auditapi

import (
	"cmp"
	"context"
	"encoding/hex"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/principal"
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
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByTime, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := operator.Filter{
		Kind: operator.Kind(httpkit.Text(p.Kind)), Subject: httpkit.Text(p.Subject), Actor: httpkit.Text(p.Actor),
		Verb:      httpkit.Text(p.Verb),
		Operation: httpkit.Text(p.Operation), RequestID: httpkit.Text(p.RequestID),
		Sagas:  httpkit.RequestOf(ctx).Who.Role.Allows(principal.SagasRead),
		ByTime: asked.Request,
	}
	if f.Kind == operator.Saga && !f.Sagas {
		return nil, fault.New(fault.Forbidden, principal.CodeForbidden, "actions on sagas require the permission %s", principal.SagasRead)
	}
	if f.From, err = httpkit.TimeOf("from", p.From); err != nil {
		return nil, err
	}
	if f.To, err = httpkit.TimeOf("to", p.To); err != nil {
		return nil, err
	}
	if wrong := httpkit.InOrder("from", "to", f.From, f.To); wrong != nil {
		return nil, wrong
	}
	found, err := s.Actions.Actions(ctx, tenant, f)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.ActionList{
		Actions:    httpkit.Each(found.Items, toAPIAction),
		Pagination: httpkit.Pagination(asked, found, (*operator.Action).Place),
	}}, nil
}

// scopeOfRecord returns the tenant whose actions are requested. Fault: Forbidden.
func scopeOfRecord(ctx context.Context, scope *api.AuditScope) (uuid.UUID, error) {
	if scope == nil || *scope == api.AuditScopeTenant {
		return httpkit.RequestOf(ctx).Tenant.ID, nil
	}
	return operator.Deployment, httpkit.ForDeployment(ctx, "the record of the deployment")
}

func toAPIAction(a *operator.Action) api.Action {
	return api.Action{
		ID: a.ID, At: a.At, Kind: api.ActionKind(a.Kind), Subject: a.Subject, Verb: a.Verb,
		SubjectName: httpkit.UnlessEmpty(a.SubjectName),
		Actor:       httpkit.UnlessEmpty(a.Actor), ActorName: httpkit.UnlessEmpty(a.ActorName),
		Reason: httpkit.UnlessEmpty(a.Reason), RequestID: httpkit.UnlessEmpty(a.RequestID), Detail: a.Detail,
		CredentialID: httpkit.UnlessNil(a.Credential), Address: httpkit.UnlessEmpty(a.Address),
		Operation:  httpkit.UnlessEmpty(a.Operation),
		BeforeHash: httpkit.UnlessEmpty(hex.EncodeToString(a.Before)),
		AfterHash:  httpkit.UnlessEmpty(hex.EncodeToString(a.After)),
		Result:     new(api.ActionResult(cmp.Or(a.Result, operator.Done))),
	}
}
