package participant_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
)

// cutHeader marks a call whose connection will be cut.
const cutHeader = "X-Test-Cut"

// event is something that happens once.
type event struct {
	c    chan struct{}
	once *sync.Once
}

func newEvent() event { return event{make(chan struct{}), &sync.Once{}} }

func (e event) happen() { e.once.Do(func() { close(e.c) }) }

// serve makes the order of the calls deterministic: the connection of a call is cut once it has
// arrived and the function was called, and the function blocks until a call arrives whose caller
// stays.
func (r *runner) serve(b *business, h http.Handler) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if leave, cut := r.leave.Load(req.Header.Get(cutHeader)); cut {
			go func() {
				<-b.begun.c
				leave.(context.CancelFunc)()
			}()
		} else {
			b.awaited.happen()
		}
		h.ServeHTTP(w, req)
	}))
}
