package apitest

import (
	"net/http"
	"testing"
)

// Checked is a transport that fails the test on an answer that the contract does not have.
func Checked(t *testing.T, next http.RoundTripper) http.RoundTripper {
	t.Helper()
	return &contractChecker{t: t, next: next, router: contractRouter(t)}
}
