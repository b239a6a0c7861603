package participant

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
)

// Finish completes the work of a call that was answered with Later: it stores the final answer in
// tx, the transaction that writes the effects of the work. tx is nil if the store is in memory. All
// later repeats of the call get this answer, byte for byte. Send the report after the commit. A
// lost report does no harm: Skald repeats the call when the wait is over and gets the answer then.
//
// A non-nil failure means that the work was not done. The errors are those of a Func: a *Refusal is
// permanent; after a *NotApplied or any other error, a repeat calls the function again. In that
// case tx should undo what the function wrote when it returned Later, because no compensation will
// follow to undo it.
//
// If Finish returns an error, roll back.
func (h *Handler) Finish(
	ctx context.Context, tx *sql.Tx, key string, output any, failure error,
) (report *Report, err error) {
	o, err := outcomeOf(output, failure)
	if err != nil {
		return nil, err
	}
	id, err := h.cfg.Store.named(ctx, tx, key)
	if err != nil {
		return nil, err
	}
	if tx == nil { // a database serializes the transactions of a step
		leave, err := h.turn.wait(ctx, id)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	err = h.cfg.Store.join(ctx, tx, id, h.cfg.Now(), func(s *step) error {
		known, err := s.pending(key)
		if err != nil {
			return err
		}
		s.finish(key, known, o.final)
		report, err = h.report(key, known.Later, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return report, nil
}

func outcomeOf(output any, failure error) (o outcome, err error) {
	refusal, again := (*Refusal)(nil), (*NotApplied)(nil)
	switch {
	case failure == nil && output == Later:
		return o, errors.New("participant: a call cannot be finished with Later")
	case failure == nil:
		o.result, o.final.Status = "done", http.StatusOK
		o.final.Body, err = encode(output)
	case errors.As(failure, &refusal):
		o.result = "refused"
		o.final, err = refusal.answer()
	case errors.As(failure, &again):
		o.result, o.why = "not_applied", problem(0, "NOT_APPLIED", again.Message).Body
	default:
		o.result, o.why = "unknown", problem(0, "FAILED", failure.Error()).Body
	}
	return o, err
}
