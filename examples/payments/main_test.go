package main

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// serve starts the bank and returns its URL.
func serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + listener.Addr().String()
	handler, err := routes(base)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return base
}

// post sends a request and returns its status; 0 means that the connection broke.
func post(t *testing.T, url, body string, headers ...string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		return 0, ""
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(got))
}

// charges returns the number of charges of an order, and how many of them were refunded.
func charges(t *testing.T, base, bank string, order int) (n, refunded int) {
	t.Helper()
	res, err := http.Get(base + "/" + bank + "/charges?order=" + strconv.Itoa(order))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var out struct{ Charges []charge }
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	for _, c := range out.Charges {
		if c.Refunded {
			refunded++
		}
	}
	return len(out.Charges), refunded
}

// TestTheBanks sends each request twice, as Skald does when an answer is lost.
func TestTheBanks(t *testing.T) {
	base := serve(t)
	for _, tt := range []struct {
		bank          string
		order, amount int
		statuses      [2]int
		said          string // in the second answer
		charges       int
	}{
		{"header", 1, 1000, [2]int{200, 200}, "ch_1", 1},
		{"header", 2, 1002, [2]int{402, 402}, "declined", 0},
		{"header", 3, 1003, [2]int{503, 200}, "ch_2", 1},
		{"header", 4, 1004, [2]int{0, 200}, "ch_3", 1},
		{"header", 5, -1, [2]int{400, 400}, "positive", 0},
		{"body", 1, 1000, [2]int{200, 200}, `"state":"done"`, 1},
		{"body", 2, 1002, [2]int{200, 200}, `"state":"declined"`, 0},
		{"body", 3, 1003, [2]int{200, 200}, `"state":"done"`, 1},
		{"body", 4, 1004, [2]int{0, 200}, `"state":"done"`, 1},
		{"plain", 1, 1000, [2]int{200, 200}, "ch_2", 2},
		{"plain", 2, 1002, [2]int{402, 402}, "declined", 0},
		{"plain", 3, 1003, [2]int{503, 200}, "ch_3", 1},
		{"plain", 4, 1004, [2]int{0, 200}, "ch_5", 2},
	} {
		key := tt.bank + strconv.Itoa(tt.order)
		body := `{"request_id":"` + key + `","order":` + strconv.Itoa(tt.order) + `,"amount":` + strconv.Itoa(tt.amount) + `}`
		var got [2]int
		var said string
		for i := range got {
			got[i], said = post(t, base+"/"+tt.bank+"/charges", body, "Idempotency-Key", key)
		}
		n, _ := charges(t, base, tt.bank, tt.order)
		if got != tt.statuses || n != tt.charges || !strings.Contains(said, tt.said) {
			t.Errorf("%s, %d: %v, %s, %d charges", tt.bank, tt.amount, got, said, n)
		}
	}
	for _, tt := range []struct {
		path, body, key string
		want            int
	}{
		{"/header/charges", `{"order":1,"amount":7}`, "header1", 422},
		{"/header/charges", `{"order":1,"amount":7}`, "", 400},
		{"/header/charges", `{"order":1`, "new", 400},
		{"/header/refunds", `{"order":1}`, "r", 200},
		{"/header/refunds", `{"order":1}`, "r", 200}, // the same answer as before
		{"/header/refunds", `{"order":1}`, "r2", 404},
		{"/body/charges", `{"order":1,"amount":7}`, "k", 400},
		{"/plain/refunds", `{"order":99}`, "", 404},
	} {
		if got, said := post(t, base+tt.path, tt.body, "Idempotency-Key", tt.key); got != tt.want {
			t.Errorf("%s %s with the key %q: %d %s, want %d", tt.path, tt.body, tt.key, got, said, tt.want)
		}
	}
}

// TestTheGuardChargesOnce checks that the guard charges once, whatever happens at the bank behind
// it.
func TestTheGuardChargesOnce(t *testing.T) {
	base := serve(t)
	call := func(order, amount, fence int, action string) (int, string) {
		saga := "00000000-0000-4000-8000-" + strconv.Itoa(100000000000+order)
		payload := `{"order":` + strconv.Itoa(order) + `,"amount":` + strconv.Itoa(amount) + `}`
		path := map[string]string{"execute": "/guarded/charges", "compensate": "/guarded/refunds"}[action]
		return post(t, base+path, `{"saga_id":"`+saga+`","step":"charge","action":"`+action+`","payload":`+payload+
			`,"input":`+payload+`,"output":null,"outputs":{}}`,
			"Idempotency-Key", saga+":charge:"+action, "X-Saga-Id", saga, "X-Saga-Tenant", "00000000-0000-0000-0000-000000000001",
			"X-Saga-Step", "charge", "X-Saga-Action", action, "X-Saga-Attempt", strconv.Itoa(fence),
			"X-Saga-Fence", strconv.Itoa(fence), "Content-Type", "application/json")
	}
	for order, tt := range map[int]struct{ amount, first, second, charged int }{
		21: {1000, 200, 200, 1},
		22: {1002, 409, 409, 0},
		23: {1003, 500, 200, 1},
		24: {1004, 500, 200, 1},
	} {
		first, one := call(order, tt.amount, 1, "execute")
		second, two := call(order, tt.amount, 2, "execute")
		n, _ := charges(t, base, "plain", order)
		if first != tt.first || second != tt.second || n != tt.charged {
			t.Errorf("%d: %d %s, then %d %s, %d charges", tt.amount, first, one, second, two, n)
		}
		undone, said := call(order, tt.amount, 3, "compensate")
		if _, refunded := charges(t, base, "plain", order); undone != 200 || refunded != tt.charged {
			t.Errorf("%d: the refund is answered with %d %s, %d are refunded", tt.amount, undone, said, refunded)
		}
	}
	if status, said := call(25, 1000, 1, "compensate"); status != 200 {
		t.Errorf("undo before do: %d %s", status, said)
	}
	if status, said := call(25, 1000, 1, "execute"); status != 409 {
		t.Errorf("a charge after its refund: %d %s", status, said)
	}
	if n, _ := charges(t, base, "plain", 25); n != 0 {
		t.Errorf("%d charges after the refund", n)
	}
}
