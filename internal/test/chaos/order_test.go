package chaos

import (
	"fmt"
	"math/rand/v2"
)

// order is one saga that a client requests, with everything the client knows about it: a line of
// the history H.
type order struct {
	marker    string // it occurs only in the payload
	flow      *flow
	body      []byte
	payload   []byte
	key       string // Idempotency-Key; "" for none
	givenID   string // saga_id chosen by the client; "" for none
	timeoutMS int    // 0: none
	cancel    bool   // the client will cancel it

	// The outcome, written only by the client that has the order.
	accepted       []string // the saga ids of all 2xx responses
	unknown        bool     // it is unknown whether some attempt was accepted
	cancelSent     bool
	cancelAccepted bool
}

// kind is the end that an order is expected to have if no fault affects it.
type kind int

const (
	plain kind = iota
	slow
	refused
	cancelled
	deadline
)

// mix says how many orders in a hundred are of each kind.
var mix = []struct {
	kind  kind
	share int
}{{plain, 45}, {slow, 15}, {refused, 5}, {cancelled, 20}, {deadline, 15}}

func anyKind(r *rand.Rand) kind {
	n := r.IntN(100)
	for _, m := range mix {
		if n -= m.share; n < 0 {
			return m.kind
		}
	}
	return plain
}

// newOrder generates a random order of kind k.
func newOrder(r *rand.Rand, marker string, flows []flow, k kind) *order {
	o := &order{marker: marker, cancel: k == cancelled}
	patient, all := flows[:len(flows)/2], flows
	o.flow = &all[r.IntN(len(all))]
	simulate := map[string]string{}
	last := stepName(len(o.flow.steps) - 1)
	switch k {
	case refused:
		simulate[last] = "refuse_always"
	case slow, cancelled:
		step := stepName(r.IntN(len(o.flow.steps)))
		simulate[step] = fmt.Sprintf("%s:%dms", []string{"slow", "late"}[r.IntN(2)], 100+r.IntN(800))
		simulate[step+":compensate"] = fmt.Sprintf("slow:%dms", 50+r.IntN(400))
	case deadline:
		// Three or more steps of 400 to 700 ms, with a deadline of one or two seconds: most of
		// these sagas pass their deadline with a call in flight.
		o.flow = &patient[r.IntN(len(patient))]
		for _, step := range o.flow.steps {
			simulate[step] = fmt.Sprintf("slow_always:%dms", 400+r.IntN(300))
		}
		o.timeoutMS = 700 + r.IntN(1300)
	}
	o.payload = encode(map[string]any{
		"marker": marker, "amount": r.IntN(5000), "simulate": simulate,
		// Values that a careless conversion in the database would alter.
		"exact": bigNumber("12345678901234567890.10"), "text": "å ☃ \u2028 \\u0000 <&>", "z": nil, "a": []any{},
	})
	request := map[string]any{"workflow_name": o.flow.name, "payload": rawJSON(o.payload), "correlation_id": marker}
	if o.timeoutMS > 0 {
		request["timeout_ms"] = o.timeoutMS
	}
	switch n := r.IntN(10); {
	case n == 0:
		o.givenID = uuidFrom(r)
		request["saga_id"] = o.givenID
	case n > 1:
		o.key = "create-" + marker
	}
	o.body = encode(request)
	return o
}

func (o *order) id() string {
	if len(o.accepted) == 0 {
		return ""
	}
	return o.accepted[0]
}
