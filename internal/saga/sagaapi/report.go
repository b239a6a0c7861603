package sagaapi

import (
	"encoding/json"
	"net/http"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga/callback"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

// report is the body of a report whose schema has been checked.
type report struct {
	Result   reported.Result
	Output   json.RawMessage
	Error    json.RawMessage
	Progress *struct {
		Percent *float64
		Message string
	}
}

// noCallback is the fault for a token that matches nothing. It does not say why.
func noCallback() error {
	return fault.New(fault.NotFound, callback.CodeNotFound, "this server did not create this callback URL, or its saga no longer exists")
}

func earlyReport() error {
	return fault.New(fault.Unavailable, callback.CodeEarly, "the response to this attempt is not stored yet: send the report again")
}

// readReport reads a report and checks what its schema cannot express.
func (s *Handlers) readReport(body []byte, undo bool) (*report, error) {
	if most := s.Callbacks.MaxBytes; most > 0 && int64(len(body)) > most {
		return nil, fault.New(fault.TooLarge, fault.CodeTooLarge,
			"the report has %d bytes; engine.max_response_bytes allows %d", len(body), most)
	}
	rep := &report{}
	if err := json.Unmarshal(body, rep); err != nil {
		return nil, httpkit.SchemaFault(fault.Field{Code: "invalid", Message: "is not a report"})
	}
	var wrong fault.Mistakes
	for _, w := range rep.Result.Misplaced(undo, rep.Output != nil, rep.Error != nil) {
		wrong.Add(w.Pointer, "invalid", "%s", w.Why)
	}
	if rep.Progress != nil && rep.Result != reported.Heartbeat {
		wrong.Add("/progress", "invalid", "is allowed only with the result heartbeat")
	}
	if wrong != nil {
		return nil, httpkit.SchemaFault(wrong...)
	}
	return rep, nil
}

func reportAnswer(body api.StepReported) httpkit.Answer {
	return httpkit.Answer{Status: http.StatusOK, Body: body}
}
