package sagaapi

import (
	"context"
	"encoding/json"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga/callback/reported"
	"github.com/skald-saga/skald/internal/saga/certification"
)

// examined returns the certification call to which a token belongs.
func (s *Handlers) examined(token string) (c certification.Callback, ok bool) {
	if s.Callbacks.Examined == nil || s.Callbacks.Inbox == nil {
		return c, false
	}
	return s.Callbacks.Examined(token)
}

// reportExamined accepts the report of a participant under certification as if a saga were waiting
// for it.
func (s *Handlers) reportExamined(ctx context.Context, c certification.Callback) (api.Response, error) {
	body := httpkit.RequestOf(ctx).Body
	rep, err := s.readReport(body, c.Undo)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	kept := json.RawMessage(body)
	if rep.Result == reported.Heartbeat {
		kept = nil
	}
	first, repeated, err := s.Callbacks.Inbox.Report(ctx, c, kept)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return nil, noCallback()
	case err != nil:
		return nil, err
	case kept == nil:
		return reportAnswer(api.StepReported{Result: api.ReportResult(rep.Result)}), nil
	case first == nil:
		return nil, earlyReport()
	}
	return reportAnswer(api.StepReported{
		Result: api.ReportResult(certification.ReadTold(first).Result), Repeated: new(repeated),
	}), nil
}
