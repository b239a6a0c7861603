package main

import (
	"encoding/json"
	"net/http"
)

const maxBody = 1 << 20

// withKeyInHeader is an interface like those of Stripe and Adyen: the key is in the Idempotency-Key
// header, and errors have their own statuses.
func (b *bank) withKeyInHeader(do operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in, ok := read(w, r)
		if !ok {
			return
		}
		key := r.Header.Get("Idempotency-Key")
		if key == "" {
			write(w, problem(http.StatusBadRequest, "the header Idempotency-Key is required"))
			return
		}
		send(w, func() (answer, bool) { return b.once(r.URL.Path+" "+key, in, do) })
	}
}

// withKeyInBody is another kind of interface: the key is a member of the body, and every valid
// request is answered with 200 and a state in the body.
func (b *bank) withKeyInBody(do operation) http.HandlerFunc {
	states := map[int]string{
		http.StatusOK: "done", http.StatusPaymentRequired: "declined", http.StatusNotFound: "nothing_to_refund",
		http.StatusServiceUnavailable: "busy",
	}
	return func(w http.ResponseWriter, r *http.Request) {
		in, ok := read(w, r)
		if !ok {
			return
		}
		if in.RequestID == "" {
			write(w, problem(http.StatusBadRequest, "request_id is required"))
			return
		}
		send(w, func() (answer, bool) {
			a, cut := b.once(r.URL.Path+" "+in.RequestID, in, do)
			if state := states[a.status]; state != "" {
				a = answer{http.StatusOK, map[string]any{"state": state, "result": a.body}}
			}
			return a, cut
		})
	}
}

// withoutKey is an interface that performs every request it receives.
func (b *bank) withoutKey(do operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if in, ok := read(w, r); ok {
			send(w, func() (answer, bool) { return b.once("", in, do) })
		}
	}
}

func read(w http.ResponseWriter, r *http.Request) (in request, ok bool) {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in)
	if err == nil && in.Order > 0 {
		return in, true
	}
	write(w, problem(http.StatusBadRequest, "the body must be JSON with an order number"))
	return in, false
}

// send performs an operation and writes its answer, unless the answer is to be lost.
func send(w http.ResponseWriter, do func() (answer, bool)) {
	a, cut := do()
	if cut {
		panic(http.ErrAbortHandler) // closes the connection
	}
	write(w, a)
}
