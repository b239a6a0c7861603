package shop

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/api/participant"
	"github.com/skald-saga/skald/examples/order/ledger"
)

// callID identifies calls for counting, for faults of the first call.
type callID struct {
	saga, step string
	action     ledger.Action
}

// verdict is the decision about a call.
type verdict struct {
	effect ledger.Effect
	answer answer
}

// newParticipant returns the participant of the shop. It keeps its state only in memory, because
// there is no database here; at the next start it is restored from the ledger, see recall.
func newParticipant() (http.Handler, error) {
	return participant.New(participant.Config{
		Store: participant.Memory(), Execute: execute, Compensate: compensate, MaxBody: maxBody,
	})
}

// execute does the work of a step, unless a business rule forbids it.
func execute(ctx context.Context, _ *sql.Tx, by *participant.Call) (any, error) {
	c := judged(ctx)
	c.performed = true
	if c.past != nil {
		return c.past.result()
	}
	if code, why := c.refusal(); code != "" {
		return nil, participant.Refuse(code, why)
	}
	return c.to.done(by.Key, c.order), nil
}

// compensate undoes the work of a step.
func compensate(ctx context.Context, _ *sql.Tx, by *participant.Call) (any, error) {
	c := judged(ctx)
	c.performed = true
	if c.past != nil {
		return c.past.result()
	}
	return map[string]any{"undo_id": c.to.id(by.Key)}, nil
}

// refusal returns the code and the message of the rule that forbids c, or "".
func (c *call) refusal() (code, why string) {
	switch {
	case c.misread != nil:
		return "order_invalid", "the payload is not an order"
	case !validFaults(c.order.Simulate):
		return "simulation_unknown", "the failure to simulate is unknown"
	case c.fault.kind == refuse || c.fault.refused:
		return "simulated_refusal", "simulated_refusal"
	}
	code = c.to.refuse(c.order)
	return code, code
}

type judgedKey struct{}

// judged returns the call about which the participant was asked.
func judged(ctx context.Context) *call {
	c, _ := ctx.Value(judgedKey{}).(*call) // judge has set it
	return c
}

// judge asks the participant about c, even if the client has disconnected.
func (s *Shop) judge(c *call) verdict {
	if c.broken != "" {
		return verdict{ledger.None, problem(http.StatusBadRequest, c.broken)}
	}
	ctx := context.WithValue(context.Background(), judgedKey{}, c)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(c.body))
	if err != nil {
		panic(err) // the method and the URL are constant
	}
	r.Header = c.header
	w := &recorder{header: http.Header{}}
	s.participant.ServeHTTP(w, r)
	a := answer{status: w.status, body: w.body.Bytes()}
	return verdict{c.effectOf(a), a}
}

// tooLate contains the codes with which the participant refuses a call that others have overtaken.
var tooLate = []string{"ALREADY_COMPENSATED", "SUPERSEDED", "OLDER_FENCE"}

func (c *call) effectOf(a answer) ledger.Effect {
	var body struct{ Code string }
	_ = json.Unmarshal(a.body, &body) // without a code, the other values decide
	switch {
	case a.status != http.StatusOK && a.status != http.StatusConflict:
		return ledger.None
	case c.performed && a.status == http.StatusOK:
		return ledger.Applied
	case c.performed:
		return ledger.RefusedBusiness
	case a.status == http.StatusConflict && slices.Contains(tooLate, body.Code):
		return ledger.RefusedLate
	case c.action == ledger.Compensate && string(a.body) == "{}": // there was nothing to undo
		return ledger.None
	}
	return ledger.Dup
}

// past is an entry of the ledger whose call is replayed.
type past ledger.Entry

// result is what the function returned originally.
func (p past) result() (any, error) {
	if p.Status == http.StatusOK {
		return p.Answer, nil
	}
	refusal := &participant.Refusal{Status: p.Status}
	if err := json.Unmarshal(p.Answer, &refusal.Details); err != nil {
		return nil, err
	}
	return nil, refusal
}

// recall replays the call of an entry, with its original result.
func (s *Shop) recall(e ledger.Entry) error {
	s.calls[callID{e.Saga, e.Step, e.Action}]++
	if e.Request == "" {
		if e.Decided() {
			return fmt.Errorf("entry %d lacks its request: the ledger was written by an earlier version", e.Seq)
		}
		return nil // the call was never processed
	}
	c := &call{action: e.Action, body: e.Request, past: new(past(e)), header: http.Header{}}
	for name, value := range map[string]string{
		"Idempotency-Key": e.Key, "X-Saga-Tenant": e.Tenant, "X-Saga-Id": e.Saga, "X-Saga-Step": e.Step,
		"X-Saga-Action": string(e.Action), "X-Saga-Attempt": strconv.Itoa(e.Attempt),
		"X-Saga-Fence": strconv.FormatInt(e.Fence, 10),
	} {
		c.header.Set(name, value)
	}
	if v := s.judge(c); v.answer.status != e.Status || v.effect != e.Effect {
		return fmt.Errorf("entry %d is %s %d, but would now be %s %d", e.Seq, e.Effect, e.Status, v.effect, v.answer.status)
	}
	return nil
}

// recorder holds an answer back until the ledger contains it.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header            { return r.header }
func (r *recorder) WriteHeader(status int)         { r.status = status }
func (r *recorder) Write(text []byte) (int, error) { return r.body.Write(text) }
