package httpapi

import (
	"context"
	"encoding/binary"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/operator"
)

// ListActions answers a page of operators' actions, newest first.
func (s *server) ListActions(ctx context.Context, in api.ListActionsRequestObject) (api.ListActionsResponseObject, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	req, p := requestOf(ctx), in.Params
	list := req.list("kind", "subject", "actor", "verb", "from", "to")
	paging, err := s.pagingOf(list, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := operator.Filter{
		Kind: operator.Kind(word(p.Kind)), Subject: text(p.Subject), Actor: text(p.Actor), Verb: text(p.Verb),
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
	page, err := s.DeadLetters.Actions.Actions(ctx, req.tenant.ID, f)
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

func toAPIAction(a *operator.Action) api.Action {
	return api.Action{
		ID: a.ID, At: a.At, Kind: api.ActionKind(a.Kind), Subject: a.Subject, Verb: a.Verb, Actor: unlessEmpty(a.Actor),
		Reason: unlessEmpty(a.Reason), RequestID: unlessEmpty(a.RequestID), Detail: a.Detail,
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

func (a answer) VisitListActionsResponse(w http.ResponseWriter) error { return a.write(w) }
