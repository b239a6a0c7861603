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

func TestTheRecorderRefusesEveryThirdOrder(t *testing.T) {
	h := &recorder{orders: map[string]calls{}}
	place := func(order string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, thirdPath, strings.NewReader(`{"order_id":"`+order+`"}`)))
		return w.Code
	}
	var codes []int
	for _, order := range []string{"A", "B", "C", "C", "A", "D", "E", "F"} {
		codes = append(codes, place(order))
	}
	if diff := cmp.Diff([]int{200, 200, 409, 409, 200, 200, 200, 409}, codes); diff != "" {
		t.Errorf("answers, repeated ones like the first (-want +got):\n%s", diff)
	}
	want := map[string]calls{
		"A": {createCalls: 2}, "B": {createCalls: 1}, "C": {refuseCalls: 2},
		"D": {createCalls: 1}, "E": {createCalls: 1}, "F": {refuseCalls: 1},
	}
	if diff := cmp.Diff(want, h.orders); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}
