package app

import (
	"net/http"

	"github.com/skald-saga/skald/internal/failpoint"
)

// pointBeforeReply hits the failpoint create.before_reply before a create is answered with 201. In
// a binary without failpoints it returns h unchanged.
func pointBeforeReply(h http.Handler) http.Handler {
	if !failpoint.Enabled {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/api/v1/sagas" {
			w = createReply{w}
		}
		h.ServeHTTP(w, r)
	})
}

type createReply struct{ http.ResponseWriter }

func (w createReply) WriteHeader(status int) {
	if status == http.StatusCreated {
		_ = failpoint.Hit(failpoint.CreateBeforeReply) // it is too late to return an error
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the wrapped writer for http.ResponseController.
func (w createReply) Unwrap() http.ResponseWriter { return w.ResponseWriter }
