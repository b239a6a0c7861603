package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
)

// answer is the success of any operation. The generated interfaces have one
// method per operation, so that handlers cannot mix up types; one answer that
// has them all keeps the writing in one place. Tests check every answer
// against the contract.
type answer struct {
	status   int
	body     any    // nil: no body
	raw      []byte // JSON as it is, instead of body
	etag     string // "" none
	location string // "" none
	replayed bool   // an earlier request of this Idempotency-Key is answered again
	waited   string // the honoured Prefer, "" none
	secret   bool   // nobody may keep it
}

// maxPooled keeps one huge answer from staying in memory for ever.
const maxPooled = 64 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (a answer) write(w http.ResponseWriter) error {
	body := a.raw
	if a.body != nil {
		buf := buffers.Get().(*bytes.Buffer)
		defer func() {
			if buf.Cap() <= maxPooled {
				buf.Reset()
				buffers.Put(buf)
			}
		}()
		enc := json.NewEncoder(buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(a.body); err != nil {
			buf.Reset()
			return err
		}
		body = buf.Bytes()
	}
	h := w.Header()
	if body != nil {
		h.Set("Content-Type", mediaJSON)
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	if a.etag != "" {
		h.Set("ETag", a.etag)
	}
	if a.location != "" {
		h.Set("Location", a.location)
	}
	if a.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if a.waited != "" {
		h.Set("Preference-Applied", a.waited)
	}
	if a.secret {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(a.status)
	if body != nil {
		_, _ = w.Write(body) // a client that left cannot be told
	}
	return nil
}

// unchanged answers 304 when the client has the resource, else a.
func (a answer) unchanged(ifNone *string) (answer, error) {
	has, err := ifNoneMatch(ifNone, a.etag)
	if err != nil || !has {
		return a, err
	}
	return answer{status: http.StatusNotModified, etag: a.etag}, nil
}

func (a answer) VisitRegisterWorkflowResponse(w http.ResponseWriter) error     { return a.write(w) }
func (a answer) VisitListWorkflowsResponse(w http.ResponseWriter) error        { return a.write(w) }
func (a answer) VisitValidateWorkflowResponse(w http.ResponseWriter) error     { return a.write(w) }
func (a answer) VisitGetWorkflowResponse(w http.ResponseWriter) error          { return a.write(w) }
func (a answer) VisitListWorkflowVersionsResponse(w http.ResponseWriter) error { return a.write(w) }
func (a answer) VisitGetWorkflowVersionResponse(w http.ResponseWriter) error   { return a.write(w) }
func (a answer) VisitEnableWorkflowResponse(w http.ResponseWriter) error       { return a.write(w) }
func (a answer) VisitDisableWorkflowResponse(w http.ResponseWriter) error      { return a.write(w) }
func (a answer) VisitCreateSagaResponse(w http.ResponseWriter) error           { return a.write(w) }
func (a answer) VisitListSagasResponse(w http.ResponseWriter) error            { return a.write(w) }
func (a answer) VisitGetSagaResponse(w http.ResponseWriter) error              { return a.write(w) }
func (a answer) VisitListStepLogsResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a answer) VisitListStepsResponse(w http.ResponseWriter) error            { return a.write(w) }
func (a answer) VisitListSagaEventsResponse(w http.ResponseWriter) error       { return a.write(w) }
func (a answer) VisitListEventsResponse(w http.ResponseWriter) error           { return a.write(w) }
func (a answer) VisitVerifyAuditResponse(w http.ResponseWriter) error          { return a.write(w) }
func (a answer) VisitListSagaStatisticsResponse(w http.ResponseWriter) error   { return a.write(w) }
func (a answer) VisitCancelSagaResponse(w http.ResponseWriter) error           { return a.write(w) }
func (a answer) VisitCompensateSagaResponse(w http.ResponseWriter) error       { return a.write(w) }
func (a answer) VisitResumeCompensationResponse(w http.ResponseWriter) error   { return a.write(w) }
func (a answer) VisitCreateAPIKeyResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a answer) VisitListAPIKeysResponse(w http.ResponseWriter) error          { return a.write(w) }
func (a answer) VisitGetAPIKeyResponse(w http.ResponseWriter) error            { return a.write(w) }
func (a answer) VisitRevokeAPIKeyResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a answer) VisitWhoAmIResponse(w http.ResponseWriter) error               { return a.write(w) }
func (a answer) VisitRestoreSagaResponse(w http.ResponseWriter) error          { return a.write(w) }
func (a answer) VisitRunRetentionResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a answer) VisitGetStorageResponse(w http.ResponseWriter) error           { return a.write(w) }
func (a answer) VisitRetrySagaResponse(w http.ResponseWriter) error            { return a.write(w) }
func (a answer) VisitSuspendSagaResponse(w http.ResponseWriter) error          { return a.write(w) }
func (a answer) VisitResumeSagaResponse(w http.ResponseWriter) error           { return a.write(w) }
func (a answer) VisitExtendDeadlineResponse(w http.ResponseWriter) error       { return a.write(w) }
func (a answer) VisitForceCompleteResponse(w http.ResponseWriter) error        { return a.write(w) }
func (a answer) VisitForceFailResponse(w http.ResponseWriter) error            { return a.write(w) }
func (a answer) VisitAcknowledgeSagaResponse(w http.ResponseWriter) error      { return a.write(w) }
func (a answer) VisitSkipStepResponse(w http.ResponseWriter) error             { return a.write(w) }
func (a answer) VisitCompleteStepResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a answer) VisitFailStepResponse(w http.ResponseWriter) error             { return a.write(w) }
func (a answer) VisitExplainSagaResponse(w http.ResponseWriter) error          { return a.write(w) }
func (a answer) VisitGetSagaResultResponse(w http.ResponseWriter) error        { return a.write(w) }
func (a answer) VisitGetHealthResponse(w http.ResponseWriter) error            { return a.write(w) }
func (a answer) VisitGetReadinessResponse(w http.ResponseWriter) error         { return a.write(w) }
func (a answer) VisitGetVersionResponse(w http.ResponseWriter) error           { return a.write(w) }
func (a answer) VisitGetContractResponse(w http.ResponseWriter) error          { return a.write(w) }
func (a answer) VisitGetMetricsResponse(w http.ResponseWriter) error           { return a.write(w) }
