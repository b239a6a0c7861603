package httpapi

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/principal"
)

// creating lists the operations that create work for Skald.
var creating = map[string]bool{
	"createSaga": true, "pushDeadLetter": true, "pushDeadLetters": true, "importDeadLetters": true,
	"createJobRun": true, "rerunJobRun": true, "createBackfill": true, "publishJobEvent": true,
}

// limit counts a request against the limits of its credential and its tenant. Reports of workers
// are not counted, because a worker that had to wait would lose its runs. An exchange may contain a
// report, so it is its handler that rejects an exchange that reports nothing. Fault: TooMany.
func (s *server) limit(w http.ResponseWriter, req *httpkit.Request) error {
	exchange := req.Operation == "exchangeRuns"
	if s.cfg.Limiter == nil || req.Permission == principal.JobsWork && req.Operation != "claimRuns" && !exchange {
		return nil
	}
	key := req.Who.Subject
	if req.Who.KeyID != uuid.Nil {
		key = req.Who.KeyID.String()
	}
	v := s.cfg.Limiter.Take(key, req.Tenant.ID, creating[req.Operation])
	h := w.Header()
	h["Ratelimit-Policy"], h["Ratelimit"] = []string{v.Policy}, []string{v.State}
	if v.Limit == "" {
		return nil
	}
	s.cfg.Limited(v.Limit)
	h.Set("Retry-After", strconv.Itoa(int(max(1, math.Ceil(v.Wait.Seconds())))))
	err := fault.New(fault.TooMany, httpkit.CodeRateLimited, "too many requests: the limit %q allows the next request in %s", v.Limit, v.Wait.Round(time.Millisecond))
	if exchange {
		req.Limited = err
		return nil
	}
	return err
}
