package httpapi

import (
	"cmp"
	"context"
	"encoding/hex"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
)

// ListActions answers a page of operators' actions, newest first.
func (s *auditHandlers) ListActions(ctx context.Context, in api.ListActionsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	req, p := requestOf(ctx), in.Params
	tenant, err := scopeOfRecord(ctx, p.Scope)
	if err != nil {
		return nil, err
	}
	paging, err := s.pagingOf(req.list("kind", "subject", "actor", "verb", "operation", "request_id", "scope", "from", "to"), p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := operator.Filter{
		Kind: operator.Kind(word(p.Kind)), Subject: text(p.Subject), Actor: text(p.Actor), Verb: text(p.Verb),
		Operation: text(p.Operation), RequestID: text(p.RequestID),
		Limit: paging.size, Offset: paging.offset(), Total: paging.total,
	}
	if f.From, err = timeOf("from", p.From); err != nil {
		return nil, err
	}
	if f.To, err = timeOf("to", p.To); err != nil {
		return nil, err
	}
	if paging.page == 0 {
		at, id, err := timeAndID(paging.after)
		if err != nil {
			return nil, err
		}
		f.After = &operator.Cursor{At: at, ID: id}
	}
	page, err := s.Actions.Actions(ctx, tenant, f)
	if err != nil {
		return nil, err
	}
	out := api.ActionList{Actions: make([]api.Action, len(page.Actions))}
	for i := range page.Actions {
		out.Actions[i] = toAPIAction(&page.Actions[i])
	}
	paging.capped = page.TotalCapped
	out.Pagination = paging.answer(page.More, page.Total, func() []byte {
		last := &page.Actions[len(page.Actions)-1]
		return timeAndIDKeys(last.At, last.ID)
	})
	return answer{status: http.StatusOK, body: out}, nil
}

// scopeOfRecord returns whose record is meant. Fault: Forbidden.
func scopeOfRecord(ctx context.Context, scope *api.AuditScope) (uuid.UUID, error) {
	if scope == nil || *scope == api.AuditScopeTenant {
		return requestOf(ctx).tenant.ID, nil
	}
	return operator.Deployment, forDeployment(ctx, "the record of the deployment")
}

func toAPIAction(a *operator.Action) api.Action {
	return api.Action{
		ID: a.ID, At: a.At, Kind: api.ActionKind(a.Kind), Subject: a.Subject, Verb: a.Verb, Actor: unlessEmpty(a.Actor),
		Reason: unlessEmpty(a.Reason), RequestID: unlessEmpty(a.RequestID), Detail: a.Detail,
		CredentialID: unlessNil(a.Credential), Address: unlessEmpty(a.Address), Operation: unlessEmpty(a.Operation),
		BeforeHash: unlessEmpty(hex.EncodeToString(a.Before)), AfterHash: unlessEmpty(hex.EncodeToString(a.After)), Result: new(api.ActionResult(cmp.Or(a.Result, operator.Done))),
	}
}
