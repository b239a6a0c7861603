package participant

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
)

// Finish ends the work of a call that was answered later: it gives the call its final answer, in tx, in which the
// effects of the work are written. tx is nil if the store is in memory. All later repeats of the call get this
// answer, byte for byte. Send the report after the commit. If that is lost, nothing is: Skald repeats the call when
// the wait is over, and gets the answer.
//
// failure says that the work was not done, as the errors of a Func do: a *Refusal is a permanent no, after a
// *NotApplied or any other error a repeat calls the function. tx should then take back what the function wrote when
// it answered later, because no compensation follows that would know of it.
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
	if tx == nil { // otherwise the database lets one transaction at a time have the step
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
