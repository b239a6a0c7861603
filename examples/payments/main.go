// Command payments is a bank with three interfaces, none of which knows about Skald: /header takes
// an idempotency key in a header, /body takes one in the body, /plain takes none. A fourth,
// /guarded, is a participant in front of /plain that asks before it charges. docs/payment-api.md
// calls all four. Everything is in memory.
//
//	go run ./examples/payments
//	curl 127.0.0.1:9002/plain/charges?order=7   # what was charged for order 7
//
// As in the sandboxes of real banks, the last two digits of the amount select what goes wrong: see
// bank.go.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9002", "address to serve on")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		var handler http.Handler
		if handler, err = routes("http://" + listener.Addr().String()); err == nil {
			server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
			err = server.Serve(listener)
		}
	}
	if !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "payments:", err)
		os.Exit(1)
	}
}

// routes serves the four interfaces. self is the URL at which they are served: the guard calls
// /plain there.
func routes(self string) (http.Handler, error) {
	guard, err := guarded(self + "/plain/charges")
	if err != nil {
		return nil, err
	}
	header, body, plain := newBank(), newBank(), newBank()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /header/charges", header.withKeyInHeader(header.charge))
	mux.HandleFunc("POST /header/refunds", header.withKeyInHeader(header.refund))
	mux.HandleFunc("POST /body/charges", body.withKeyInBody(body.charge))
	mux.HandleFunc("POST /body/refunds", body.withKeyInBody(body.refund))
	mux.HandleFunc("POST /plain/charges", plain.withoutKey(plain.charge))
	mux.HandleFunc("POST /plain/refunds", plain.withoutKey(plain.refund))
	mux.Handle("POST /guarded/charges", guard)
	mux.Handle("POST /guarded/refunds", guard)
	mux.HandleFunc("GET /header/charges", header.list)
	mux.HandleFunc("GET /body/charges", body.list)
	mux.HandleFunc("GET /plain/charges", plain.list)
	return mux, nil
}

// list returns the charges of an order, including refunded ones.
func (b *bank) list(w http.ResponseWriter, r *http.Request) {
	order, err := strconv.Atoi(r.URL.Query().Get("order"))
	if err != nil {
		write(w, problem(http.StatusBadRequest, "order must be a number"))
		return
	}
	write(w, answer{http.StatusOK, map[string]any{"charges": b.of(order)}})
}

// An answer to a request.
type answer struct {
	status int
	body   any
}

func problem(status int, message string) answer {
	return answer{status, map[string]string{"error": message}}
}

func write(w http.ResponseWriter, a answer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a.body)
}
