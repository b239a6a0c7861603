package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"
)

// TestDeprecatedOperationsAnnounceTheirEnd checks that all responses of a deprecated operation have
// the headers that the contract implies, and that an incomplete deprecation in the contract is
// refused.
func TestDeprecatedOperationsAnnounceTheirEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		op   string
		want http.Header
		bad  bool
	}{
		"not deprecated":     {op: `{}`},
		"no date to go":      {op: `{"deprecated":true,"x-deprecated-at":"2026-11-27"}`, want: http.Header{"Deprecation": {"@1795737600"}}},
		"both":               {op: `{"deprecated":true,"x-deprecated-at":"2026-11-27","x-sunset":"2027-06-01"}`, want: http.Header{"Deprecation": {"@1795737600"}, "Sunset": {"Tue, 01 Jun 2027 00:00:00 GMT"}}},
		"without a date":     {op: `{"deprecated":true}`, bad: true},
		"only a date":        {op: `{"x-deprecated-at":"2026-11-27"}`, bad: true},
		"no date at all":     {op: `{"deprecated":true,"x-deprecated-at":"soon"}`, bad: true},
		"it goes before":     {op: `{"deprecated":true,"x-deprecated-at":"2026-11-27","x-sunset":"2026-11-27"}`, bad: true},
		"it goes, but stays": {op: `{"x-sunset":"2026-11-27"}`, bad: true},
		"it goes at no date": {op: `{"deprecated":true,"x-deprecated-at":"2026-11-27","x-sunset":7}`, bad: true},
	} {
		var op openapi3.Operation
		if err := json.Unmarshal([]byte(tt.op), &op); err != nil {
			t.Fatal(err)
		}
		got, err := announcement(&op)
		if diff := cmp.Diff(tt.want, got); (err != nil) != tt.bad || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	end := http.Header{"Deprecation": {"@1"}, "Sunset": {"then"}}
	s := &server{contract: &contract{routes: map[routeKey]*route{{"GET", "/old"}: {deprecated: end}, {"GET", "/new"}: {}}}}
	for path, want := range map[string]http.Header{"/old": end, "/new": {}} {
		r := httptest.NewRequestWithContext(context.Background(), "GET", path, nil)
		chosen := chi.NewRouteContext()
		chosen.RoutePatterns = []string{path}
		w := httptest.NewRecorder()
		refuses := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
		s.announce(refuses).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, chosen)))
		if diff := cmp.Diff(want, w.Header()); diff != "" || w.Code != http.StatusForbidden {
			t.Errorf("%s: %d (-want +got):\n%s", path, w.Code, diff)
		}
	}
}
