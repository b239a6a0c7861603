package httpapi

import (
	"context"
	"net/http"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
)

// GetHealth answers while the process can answer at all.
func (s *server) GetHealth(context.Context, api.GetHealthRequestObject) (api.Response, error) {
	return answer{status: http.StatusOK, body: api.Health{Status: api.HealthStatusOk}}, nil
}

// GetReadiness answers whether this node can serve.
func (s *server) GetReadiness(ctx context.Context, _ api.GetReadinessRequestObject) (api.Response, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if s.Ready != nil {
		if err := s.Ready(ctx); err != nil {
			return nil, fault.New(fault.Unavailable, codeUnavailable, "not ready: %s", err)
		}
	}
	return answer{status: http.StatusOK, body: api.Health{Status: api.HealthStatusOk}}, nil
}

// GetVersion answers what is running.
func (s *server) GetVersion(context.Context, api.GetVersionRequestObject) (api.Response, error) {
	v := api.Version{Version: s.Version.Version, Go: s.Version.Go}
	if s.Version.Commit != "" {
		v.Commit = &s.Version.Commit
	}
	if s.Version.BuiltAt != "" {
		v.BuiltAt = &s.Version.BuiltAt
	}
	return answer{status: http.StatusOK, body: v}, nil
}

// GetContract answers the contract itself.
func (s *server) GetContract(_ context.Context, in api.GetContractRequestObject) (api.Response, error) {
	return answer{status: http.StatusOK, raw: s.contract.json, etag: s.contract.etag}.unchanged(in.Params.IfNoneMatch)
}

// GetMetrics is in the contract but served in front of this package; here
// there is nothing.
func (s *server) GetMetrics(context.Context, api.GetMetricsRequestObject) (api.Response, error) {
	return nil, fault.New(fault.NotFound, codeNotFound, "metrics are not served on this port")
}
