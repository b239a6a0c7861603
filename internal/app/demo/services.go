package demo

import (
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/loop"
)

// services are the participants of a demo that keeps running. They have no ledger and respond as
// configured.
type services struct {
	url    string
	people *people // the identity provider, at the same address
	began  time.Time
	mu     sync.Mutex
	as     map[string]string // how an operation such as "stock/release" responds; default: ok
	seen   map[string]int    // calls by path and Idempotency-Key, for operations that succeed at the third attempt
	last   []arrival         // the newest calls, oldest first; one per operation and answer
	stop   chan struct{}
}

// arrival is a call that a service has answered.
type arrival struct {
	At              time.Time
	Operation, Body string
	Status          int
	Before          int // how many times the operation has given this answer before
}

// arrivals is the number of calls that the services' page lists.
const arrivals = 50

// arrived adds a call. It keeps only the newest call per operation and answer, so that a single
// letter remains visible among webhooks that are sent again and again.
func arrived(all []arrival, a arrival) []arrival {
	like := func(o arrival) bool { return o.Operation == a.Operation && o.Status == a.Status }
	if i := slices.IndexFunc(all, like); i >= 0 {
		a.Before = all[i].Before + 1
		all = slices.Delete(all, i, i+1)
	}
	all = append(all, a)
	return all[max(0, len(all)-arrivals):]
}

// manners are the ways in which an operation can respond.
var manners = map[string]string{
	"ok": "200", "refuse": "409 out_of_stock", "down": "503", "flaky": "503 twice, then 200",
	"slow": "200 after a minute", "tidal": "503 for a minute, then 200 for a minute", "strict": "422 if amount exceeds paid",
}

// tide is how long a tidal operation is down, and then how long it is up.
const tide = time.Minute

// openServices serves the participants and the people of a demo on a free loopback port.
func openServices(log *slog.Logger) (s *services, closeIt func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	s = &services{
		url: "http://" + l.Addr().String(), as: map[string]string{}, seen: map[string]int{}, began: time.Now(),
		stop: make(chan struct{}),
	}
	if s.people, err = newPeople(s.url); err != nil {
		l.Close()
		return nil, nil, err
	}
	mux := http.NewServeMux()
	s.people.serve(mux)
	mux.HandleFunc("PUT /manners/{service}/{operation}", s.teach)
	mux.HandleFunc("POST /{service}/{operation}", s.respond)
	mux.HandleFunc("GET /{$}", s.page)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(l); err != http.ErrServerClosed {
			log.Error("the participants of the demo ended", slog.Any("error", err))
		}
	}()
	return s, sync.OnceFunc(func() { close(s.stop); server.Close() }), nil
}

// behave sets how an operation responds from now on.
func (s *services) behave(operation, manner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.as[operation] = manner
}

// teach is the HTTP handler for behave: curl -X PUT -d down .../manners/stock/release.
func (s *services) teach(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 100))
	manner := strings.TrimSpace(string(text))
	if err != nil || manners[manner] == "" {
		http.Error(w, fmt.Sprintf("the body must be one of ok, refuse, down, flaky, slow, tidal and strict, not %q", manner), 400)
		return
	}
	operation := r.PathValue("service") + "/" + r.PathValue("operation")
	s.behave(operation, manner)
	fmt.Fprintf(w, "%s now answers %s\n", operation, manners[manner])
}

// respond answers a call in the way that is set for the operation. The body makes no difference
// unless the operation is strict.
func (s *services) respond(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20)) // a body that cannot be read counts as empty
	operation := r.PathValue("service") + "/" + r.PathValue("operation")
	s.mu.Lock()
	manner, call := s.as[operation], operation+" "+r.Header.Get("Idempotency-Key")
	s.seen[call]++
	first := s.seen[call] < 3
	s.mu.Unlock()
	pause := 40 * time.Millisecond
	status, body := http.StatusOK, object{"operation": operation, "reference": 9007199254740993}
	switch {
	case manner == "refuse":
		status, body = http.StatusConflict, object{"error": "out_of_stock", "sku": "lamp", "left": 0}
	case manner == "down", manner == "flaky" && first, manner == "tidal" && time.Since(s.began)/tide%2 == 0:
		status, body = http.StatusServiceUnavailable, object{"error": operation + " is in maintenance"}
	case manner == "slow":
		pause = time.Minute
	case manner == "strict":
		status, body = booked(text)
	}
	if loop.Await(r.Context(), pause, s.stop) {
		panic(http.ErrAbortHandler) // without a response
	}
	if r.Context().Err() != nil {
		return
	}
	s.mu.Lock()
	s.last = arrived(s.last, arrival{At: time.Now(), Operation: operation, Body: string(text), Status: status})
	s.mu.Unlock()
	answer(w, status, body)
}

// booked is the answer to a refund, which cannot exceed what was paid.
func booked(text []byte) (int, object) {
	var in struct{ Amount, Paid float64 }
	switch err := json.Unmarshal(text, &in); {
	case err != nil:
		return http.StatusUnprocessableEntity, object{"error": "unreadable"}
	case in.Amount > in.Paid:
		return http.StatusUnprocessableEntity, object{
			"error": "amount_exceeds_payment", "amount": in.Amount, "paid": in.Paid,
		}
	}
	return http.StatusOK, object{"booked": in.Amount}
}

var arrivalsPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Services of the demo</title>
<meta name="color-scheme" content="light dark"><meta http-equiv="refresh" content="5"><link rel="icon" href="data:,">
<style>body { font: 14px system-ui; margin: 2em }
td, th { text-align: left; padding: .2em 1em .2em 0; vertical-align: top }
code { overflow-wrap: anywhere }</style>
<h1>Services of the demo</h1>
<p>The newest call to each operation with each response, and the number of earlier ones.
Make an operation respond differently with <code>curl -X PUT -d down {{.URL}}/manners/stock/reserve</code>.</p>
<table><tr><th>at<th>operation<th>answer<th>body{{range .Last}}
<tr><td>{{.At.Format "15:04:05"}}<td>{{.Operation}}<td>{{.Status}}
{{with .Before}}and {{.}} before{{end}}<td><code>{{.Body}}</code>{{end}}
</table></html>
`))

// page lists the newest calls, so that a person sees what has arrived.
func (s *services) page(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	last := slices.Clone(s.last)
	s.mu.Unlock()
	slices.Reverse(last)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = arrivalsPage.Execute(w, object{"URL": s.url, "Last": last}) // the browser has the page or has gone
}
