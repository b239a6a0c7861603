package measure

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecorder(t *testing.T) {
	h := &recorder{orders: map[string]calls{}}
	post := func(path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		return w
	}
	for path, code := range map[string]int{"/stock/reserve": 200, "/payment/charge": 200, "/shipment/refuse": 409} {
		if w := post(path, `{"payload":{"order_id":"A"}}`); w.Code != code {
			t.Errorf("%s gave %d, want %d", path, w.Code, code)
		}
	}
	post("/stock/reserve", `{"order_id":"B"}`)
	post("/stock/reserve", `{"order_id":"B"}`)
	for _, bad := range [][2]string{{"/stock/reserve", `{}`}, {"/stock/unknown", `{"order_id":"C"}`}} {
		if w := post(bad[0], bad[1]); w.Code != http.StatusBadRequest {
			t.Errorf("%s with %s gave %d, want 400", bad[0], bad[1], w.Code)
		}
	}
	if made := post(madePath, "").Body.String(); made != "5" {
		t.Errorf("%s calls were made, want 5", made)
	}
	for _, want := range []map[string]calls{{"A": {1, 1, 0, 1, 0, 0}, "B": {2, 0, 0, 0, 0, 0}}, {}} {
		got := map[string]calls{}
		if err := json.Unmarshal(post(recordedPath, "").Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("recorded (-want +got):\n%s", diff)
		}
	}
}

func TestCheckCalls(t *testing.T) {
	for _, tt := range []struct {
		name     string
		made     calls
		want     calls
		repeated int
		wrong    bool
	}{
		{"all once", calls{1, 1, 1, 0, 0, 0}, placedCalls, 0, false},
		{"one again", calls{1, 3, 1, 0, 0, 0}, placedCalls, 2, false},
		{"one missing", calls{1, 0, 1, 0, 0, 0}, placedCalls, 0, true},
		{"one that must not be", calls{1, 1, 1, 0, 1, 0}, placedCalls, 1, true},
		{"all undone", calls{1, 1, 0, 1, 1, 1}, undoneCalls, 0, false},
		{"not undone", calls{1, 1, 0, 1, 0, 0}, undoneCalls, 0, true},
		{"never called", calls{}, placedCalls, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			repeated, err := checkCalls(map[string]calls{"A": tt.made}, []string{"A"}, tt.want)
			if repeated != tt.repeated || (err != nil) != tt.wrong {
				t.Errorf("checkCalls = %d, %v; want %d, wrong %t", repeated, err, tt.repeated, tt.wrong)
			}
		})
	}
}
