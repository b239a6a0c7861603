package httpapi

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
)

// ListActions answers a page of operators' actions, newest first.
func (s *server) ListActions(ctx context.Context, in api.ListActionsRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	req, p := requestOf(ctx), in.Params
	tenant, err := scopeOfRecord(ctx, p.Scope)
	if err != nil {
		return nil, err
	}
	list := req.list("kind", "subject", "actor", "verb", "operation", "request_id", "scope", "from", "to")
	paging, err := s.pagingOf(list, p.Page, p.PageSize, p.Cursor, p.Include)
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
	page, err := s.DeadLetters.Actions.Actions(ctx, tenant, f)
	if err != nil {
		return nil, err
	}
	out := api.ActionList{Actions: make([]api.Action, len(page.Actions))}
	for i := range page.Actions {
		out.Actions[i] = toAPIAction(&page.Actions[i])
	}
	paging.capped = page.TotalCapped
	out.Pagination = paging.answer(page.More, page.Total, func() string {
		last := &page.Actions[len(page.Actions)-1]
		return s.cursors.seal(list, timeAndIDKeys(last.At, last.ID))
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

// timeAndIDKeys are the sort keys of lists by a time and an id.
func timeAndIDKeys(at time.Time, id uuid.UUID) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro())), id[:]...) //nolint:gosec // read back as it was
}

// timeAndID is the inverse of timeAndIDKeys.
func timeAndID(keys []byte) (time.Time, uuid.UUID, error) {
	if len(keys) != 8+16 {
		return time.Time{}, uuid.Nil, badCursor()
	}
	at, _, err := timeAndText(keys)
	return at, uuid.UUID(keys[8:]), err
}

// timeAndTextKeys are the sort keys of lists by a time and a text.
func timeAndTextKeys(at time.Time, s string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro())), s...) //nolint:gosec // read back as it was
}

// timeAndText is the inverse of timeAndTextKeys.
func timeAndText(keys []byte) (time.Time, string, error) {
	if len(keys) < 8 {
		return time.Time{}, "", badCursor()
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64(keys))).UTC(), string(keys[8:]), nil //nolint:gosec // as it was made
}
