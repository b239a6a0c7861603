package workerapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/jobrun"
)

// CheckFence reports whether a fencing token is at least as new as the newest one checked for its
// key.
func (s *Handlers) CheckFence(ctx context.Context, in api.CheckFenceRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	epochText, seqText, _ := strings.Cut(in.Body.FencingToken, ".")
	epoch, errEpoch := strconv.ParseInt(epochText, 10, 64)
	seq, errSeq := strconv.ParseInt(seqText, 10, 64)
	if errEpoch != nil || errSeq != nil { // the contract has already checked it
		return nil, httpkit.SchemaFault(fault.Field{Pointer: "/fencing_token", Code: "invalid",
			Message: "is not a fencing token"})
	}
	token := jobrun.ShownToken{Epoch: epoch, Seq: seq}
	if in.Body.RunID != nil {
		token.Run = *in.Body.RunID
	}
	ok, err := s.Fences.CheckFence(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.FenceKey, token)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK,
		Body: api.FenceCheck{Ok: ok, FenceKey: in.FenceKey, FencingToken: in.Body.FencingToken}}, nil
}

// ListFences returns a page of fences, ordered by key.
func (s *Handlers) ListFences(ctx context.Context, in api.ListFencesRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req, p := httpkit.RequestOf(ctx), in.Params
	asked, err := httpkit.ForwardOf(ctx, s.Cursors, httpkit.ByName, p.PageSize, p.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Fences.ListFences(ctx, req.Tenant.ID, asked.Request)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: api.FenceList{
		Fences:     httpkit.Each(found.Items, toAPIFence),
		Pagination: httpkit.Pagination(asked, found, func(f *jobrun.KeyFence) string { return f.Key }),
	}}, nil
}

// GetFence returns one fence.
func (s *Handlers) GetFence(ctx context.Context, in api.GetFenceRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	f, err := s.Fences.Fence(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.FenceKey)
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: toAPIFence(&f)}, nil
}

// ResetFence deletes the newest token of a fence.
func (s *Handlers) ResetFence(ctx context.Context, in api.ResetFenceRequestObject) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	f, err := s.Fences.ResetFence(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.FenceKey,
		func(f jobrun.KeyFence) operator.Action {
			return s.Did(ctx, s.Now(), operator.JobFence, in.FenceKey, "reset", in.Params.Reason,
				map[string]any{"fencing_token": f.FencingToken(), "checked_at": f.CheckedAt})
		})
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Body: toAPIFence(&f)}, nil
}

func toAPIFence(f *jobrun.KeyFence) api.Fence {
	return api.Fence{FenceKey: f.Key, FencingToken: f.FencingToken(), CheckedAt: f.CheckedAt}
}
