package httpapi

import (
	"context"
	"net/http"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/ops/storage"
)

// GetHealth succeeds as long as the process can respond.
func (s *server) GetHealth(context.Context, api.GetHealthRequestObject) (api.Response, error) {
	return httpkit.Answer{Status: http.StatusOK, Body: api.Health{Status: api.HealthStatusOk}}, nil
}

// GetReadiness reports whether this node can serve.
func (s *server) GetReadiness(ctx context.Context, _ api.GetReadinessRequestObject) (api.Response, error) {
	ctx, cancel := s.kit.Bounded(ctx)
	defer cancel()
	out := api.Readiness{Status: api.ReadinessStatusOk, Warnings: []string{}}
	if s.cfg.Ready != nil {
		is, err := s.cfg.Ready(ctx)
		if err != nil {
			return nil, fault.New(fault.Unavailable, fault.CodeUnavailable, "not ready: %s", err)
		}
		if is.SchemaVersion > 0 {
			out.SchemaVersion = &is.SchemaVersion
		}
		out.Warnings = append(out.Warnings, is.Warnings...)
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// GetVersion returns the running version.
func (s *server) GetVersion(context.Context, api.GetVersionRequestObject) (api.Response, error) {
	v := api.Version{Version: s.cfg.Version.Version, Go: s.cfg.Version.Go}
	if s.cfg.Version.Commit != "" {
		v.Commit = &s.cfg.Version.Commit
	}
	if s.cfg.Version.BuiltAt != "" {
		v.BuiltAt = &s.cfg.Version.BuiltAt
	}
	return httpkit.Answer{Status: http.StatusOK, Body: v}, nil
}

// GetContract returns the contract.
func (s *server) GetContract(_ context.Context, in api.GetContractRequestObject) (api.Response, error) {
	return httpkit.Answer{Status: http.StatusOK, Raw: s.contract.json,
		ETag: s.contract.etag}.Unchanged(in.Params.IfNoneMatch)
}

// GetContractAsYAML returns the contract as YAML.
func (s *server) GetContractAsYAML(_ context.Context, in api.GetContractAsYAMLRequestObject) (api.Response, error) {
	text, err := s.contract.yaml()
	if err != nil {
		return nil, err
	}
	return httpkit.Answer{Status: http.StatusOK, Raw: text, Media: httpkit.MediaYAML,
		ETag: etagOf(text)}.Unchanged(in.Params.IfNoneMatch)
}

// GetMetrics returns 404: /metrics is in the contract, but is served by another handler in
// front of this package.
func (s *server) GetMetrics(context.Context, api.GetMetricsRequestObject) (api.Response, error) {
	return nil, fault.New(fault.NotFound, httpkit.CodeNotFound, "metrics are not served on this port")
}

// GetStorage reports the sizes of the store's tables and indexes, which all tenants share.
func (s *server) GetStorage(ctx context.Context, _ api.GetStorageRequestObject) (api.Response, error) {
	ctx, cancel := s.kit.Bounded(ctx)
	defer cancel()
	if err := httpkit.ForDeployment(ctx, "the storage report"); err != nil {
		return nil, err
	}
	var report storage.Storage
	if s.cfg.Storage != nil {
		var err error
		if report, err = s.cfg.Storage(ctx); err != nil {
			return nil, err
		}
	}
	out := api.Storage{DatabaseBytes: report.DatabaseBytes, Tables: []api.TableUsage{}}
	for _, t := range report.Tables {
		row := api.TableUsage{
			Name: t.Name, TotalBytes: t.TotalBytes, HeapBytes: t.HeapBytes, ToastBytes: t.ToastBytes, IndexBytes: t.IndexBytes,
			LiveTuples: t.LiveTuples, DeadTuples: t.DeadTuples, ModifiedSinceAnalyze: t.ModifiedSinceAnalyze,
			LastVacuum: t.LastVacuum, LastAutovacuum: t.LastAutovacuum, LastAnalyze: t.LastAnalyze,
			LastAutoanalyze: t.LastAutoanalyze,
			Indexes:         []api.IndexUsage{},
		}
		for _, x := range t.Indexes {
			row.Indexes = append(row.Indexes, api.IndexUsage{
				Name: x.Name, Bytes: x.Bytes, Unique: x.Unique, Valid: x.Valid,
				Scans: x.Scans, TuplesRead: x.TuplesRead, TuplesFetched: x.TuplesFetched,
			})
		}
		out.Tables = append(out.Tables, row)
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}
