package main

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// The last two digits of an amount decide what happens to its charge. Any other amount is charged.
const (
	declined = 2 // the card is declined on every attempt
	busy     = 3 // the first attempt is answered with 503, and nothing is charged
	lost     = 4 // the first attempt is charged, but the connection breaks before the answer
)

// request is the body of every request. RequestID is the idempotency key for /body.
type request struct {
	RequestID string `json:"request_id"`
	Order     int    `json:"order"`
	Amount    int    `json:"amount"` // in cents
}

// charge is a charge of a card. It can only be refunded completely.
type charge struct {
	ID       string `json:"id"`
	Order    int    `json:"order"`
	Amount   int    `json:"amount"`
	Refunded bool   `json:"refunded"`
}

// bank stores charges. It counts how often an order was attempted, for the amounts that fail once.
type bank struct {
	mu      sync.Mutex
	charges []charge
	tries   map[int]int
	replies map[string]reply // by idempotency key
}

// reply is the answer to the request with a key.
type reply struct {
	to     request
	answer answer
}

func newBank() *bank { return &bank{tries: map[int]int{}, replies: map[string]reply{}} }

// operation changes the state of the bank and returns the answer. It is called with mu held.
// Operations that answer with a status of 500 or above have changed nothing. cut means that the
// answer does not arrive.
type operation func(in request) (a answer, cut bool)

func (b *bank) charge(in request) (answer, bool) {
	b.tries[in.Order]++
	first := b.tries[in.Order] == 1
	switch what := in.Amount % 100; {
	case in.Amount <= 0:
		return problem(http.StatusBadRequest, "amount must be positive"), false
	case what == declined:
		return problem(http.StatusPaymentRequired, "the card was declined"), false
	case what == busy && first:
		return problem(http.StatusServiceUnavailable, "try again"), false
	}
	c := charge{ID: "ch_" + strconv.Itoa(len(b.charges)+1), Order: in.Order, Amount: in.Amount}
	b.charges = append(b.charges, c)
	return answer{http.StatusOK, c}, in.Amount%100 == lost && first
}

// refund refunds all charges of an order. It returns 404 if there is nothing to refund.
func (b *bank) refund(in request) (answer, bool) {
	n := 0
	for i := range b.charges {
		if c := &b.charges[i]; c.Order == in.Order && !c.Refunded {
			c.Refunded = true
			n++
		}
	}
	if n == 0 {
		return problem(http.StatusNotFound, "nothing is charged for this order"), false
	}
	return answer{http.StatusOK, map[string]int{"refunded": n}}, false
}

// of returns the charges of an order.
func (b *bank) of(order int) []charge {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.charges), func(c charge) bool { return c.Order != order })
}

// once performs the operation requested with a key, unless that has been done: then it repeats the
// answer. Using the key for another request is an error of the caller.
func (b *bank) once(key string, in request, do operation) (a answer, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if key == "" {
		return do(in)
	}
	if before, known := b.replies[key]; known {
		if before.to != in {
			return problem(http.StatusUnprocessableEntity, "the key was used for a different request"), false
		}
		return before.answer, false
	}
	if a, cut = do(in); a.status < 500 {
		b.replies[key] = reply{in, a}
	}
	return a, cut
}
