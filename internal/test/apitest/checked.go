package apitest

import (
	"net/http"
	"testing"
)

// Checked is a transport that fails the test on a response that the contract doesn't describe.
func Checked(t *testing.T, next http.RoundTripper) http.RoundTripper {
	t.Helper()
	return &contractChecker{t: t, next: next, router: contractRouter(t)}
}
