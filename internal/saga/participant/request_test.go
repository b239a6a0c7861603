package participant

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/saga"
)

func TestEveryRequestCarriesTheseHeadersAndNoOthers(t *testing.T) {
	var head string
	srv := serveRaw(t, func(e exchange) bool { head = e.head; e.say(okAnswer); return true })
	c := newClient(t, func(cfg *Config) {
		cfg.NewSpanID = func() [8]byte { return [8]byte{0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7} }
	})
	host := srv.Addr().String()
	base := map[string]string{
		"Host": host, "Accept": "application/json", "User-Agent": "skald/1.2.3",
		"Content-Type": "application/json", "Content-Length": "90",
		"Idempotency-Key": testID.String() + "/reserve-stock/execute",
		"X-Saga-Tenant":   "00000000-0000-0000-0000-000000000000",
		"X-Saga-Id":       testID.String(), "X-Saga-Step": "reserve-stock", "X-Saga-Action": "execute",
		"X-Saga-Attempt": "1", "X-Saga-Fence": "7", "X-Saga-Deadline": "2026-03-04T04:07:07.123Z",
		"Traceparent": "00-" + strings.ReplaceAll(testID.String(), "-", "") + "-00f067aa0ba902b7-01",
	}
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, tt := range []struct {
		name   string
		change func(*saga.Call)
		line   string            // "" means "POST / HTTP/1.1"
		diff   map[string]string // added to base; "" removes a header
	}{
		{"an ordinary call", func(*saga.Call) {}, "", nil},
		{"POST is the default", func(c *saga.Call) { c.By.HTTP.Method = "" }, "", nil},
		{"method, path and query", func(c *saga.Call) { c.By.HTTP.Method = "DELETE"; c.By.HTTP.URL += "/a/b%2Fc?q=1&r=%20" },
			"DELETE /a/b%2Fc?q=1&r=%20 HTTP/1.1", nil},
		{"blanks and letters in a URL are encoded", func(c *saga.Call) { c.By.HTTP.URL += "/é x?a b=ü" },
			"POST /%C3%A9%20x?a%20b=%C3%BC HTTP/1.1", nil},
		{"a fragment stays here", func(c *saga.Call) { c.By.HTTP.URL += "/a?b#c" }, "POST /a?b HTTP/1.1", nil},
		{"a compensation", func(c *saga.Call) { c.Action = saga.Compensate; c.Key = "k"; c.Attempt = 12; c.Fence = 1 << 40 },
			"",
			map[string]string{"X-Saga-Action": "compensate", "Idempotency-Key": "k", "X-Saga-Attempt": "12",
				"X-Saga-Fence": "1099511627776"}},
		{"a step name that is not ASCII", func(c *saga.Call) { c.Step = "予約.é"; c.Key = "id/予約.é/execute" }, "",
			map[string]string{"X-Saga-Step": "%E4%BA%88%E7%B4%84.%C3%A9", "Idempotency-Key": "id/%E4%BA%88%E7%B4%84.%C3%A9/execute"}},
		{"a step name with a line break", func(c *saga.Call) { c.Step = "a\r\nX-B: c" }, "",
			map[string]string{"X-Saga-Step": "a%0D%0AX-B:%20c"}},
		{"a trace", func(c *saga.Call) { c.Trace = trace }, "", map[string]string{"Traceparent": "00-" + trace + "-00f067aa0ba902b7-01"}},
		{"a trace id in upper case is none", func(c *saga.Call) { c.Trace = strings.ToUpper(trace) }, "", nil},
		{"a trace id of zeros is none", func(c *saga.Call) { c.Trace = strings.Repeat("0", 32) }, "", nil},
		{"a short trace id is none", func(c *saga.Call) { c.Trace = trace[1:] }, "", nil},
		{"what the client's trace carries", func(c *saga.Call) { c.Trace, c.TraceState, c.Baggage = trace, "congo=t61,rojo=0", "userId=7;ttl=3" }, "",
			map[string]string{"Traceparent": "00-" + trace + "-00f067aa0ba902b7-01", "Tracestate": "congo=t61,rojo=0",
				"Baggage": "userId=7;ttl=3"}},
		{"a definition's own instead of the client's", func(c *saga.Call) {
			c.TraceState, c.Baggage = "a=1", "a=1"
			c.By.HTTP.Headers = map[string]string{"TRACESTATE": "own=2", "baggage": "own=2"}
		}, "", map[string]string{"Tracestate": "own=2", "Baggage": "own=2"}},
		{"the timeout is the deadline", func(c *saga.Call) { c.Timeout = time.Hour }, "", map[string]string{"X-Saga-Deadline": "2026-03-04T05:06:07.123Z"}},
		{"no timeout is 30 seconds", func(c *saga.Call) { c.Timeout = 0 }, "", map[string]string{"X-Saga-Deadline": "2026-03-04T04:06:37.123Z"}},
		{"the definition's headers", func(c *saga.Call) {
			c.By.HTTP.Headers = map[string]string{"X-Team": "stock", "authorization": "Bearer x", "accept": "text/plain",
				"USER-AGENT": "mine"}
		}, "", map[string]string{"X-Team": "stock", "Authorization": "Bearer x", "Accept": "text/plain",
			"User-Agent": "mine"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call := callTo(srv.url())
			tt.change(&call)
			wantDone(t, c.Call(t.Context(), call))
			line, rest, _ := strings.Cut(head, "\r\n")
			if tt.line == "" {
				tt.line = "POST / HTTP/1.1"
			}
			if line != tt.line {
				t.Errorf("request line %q, want %q", line, tt.line)
			}
			got := map[string]string{}
			for _, h := range strings.Split(rest, "\r\n") {
				name, value, _ := strings.Cut(h, ": ")
				name = http.CanonicalHeaderKey(name)
				if _, twice := got[name]; twice {
					t.Errorf("header %s is sent twice", name)
				}
				got[name] = value
			}
			want := map[string]string{}
			for name, value := range base {
				want[name] = value
			}
			for name, value := range tt.diff {
				want[name] = value
			}
			want["Content-Length"] = fmt.Sprint(len(call.Body))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpansDiffer(t *testing.T) {
	c := New(Config{})
	defer c.Close()
	if a, b := c.cfg.NewSpanID(), c.cfg.NewSpanID(); a == b || a == [8]byte{} {
		t.Errorf("spans %x and %x", a, b)
	}
}

func TestTargetsOfURLs(t *testing.T) {
	for _, tt := range []struct {
		url  string
		want target
	}{
		{"http://orders", target{host: "orders", address: "orders:80", key: "http://orders:80", line: " / HTTP/1.1\r\nHost: orders\r\n"}},
		{"http://orders:80/x", target{host: "orders", address: "orders:80", key: "http://orders:80", line: " /x HTTP/1.1\r\nHost: orders:80\r\n"}},
		{"https://orders?x", target{tls: true, host: "orders", address: "orders:443", key: "https://orders:443", line: " /?x HTTP/1.1\r\nHost: orders\r\n"}},
		{"http://my_service:9000", target{host: "my_service", address: "my_service:9000", key: "http://my_service:9000", line: " / HTTP/1.1\r\nHost: my_service:9000\r\n"}},
		{"http://bücher.example", target{host: "xn--bcher-kva.example", address: "xn--bcher-kva.example:80", key: "http://xn--bcher-kva.example:80", line: " / HTTP/1.1\r\nHost: xn--bcher-kva.example\r\n"}},
		{"http://[fd12::1]:81", target{host: "fd12::1", address: "[fd12::1]:81", key: "http://[fd12::1]:81", line: " / HTTP/1.1\r\nHost: [fd12::1]:81\r\n"}},
		{"http://[fe80::1%25eth0]", target{host: "fe80::1%eth0", address: "[fe80::1%eth0]:80", key: "http://[fe80::1%eth0]:80", line: " / HTTP/1.1\r\nHost: [fe80::1]\r\n"}},
	} {
		got, err := parseTarget(tt.url)
		if err != nil || *got != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", tt.url, got, err, tt.want)
		}
	}
}

func TestTheCacheOfURLsIsBounded(t *testing.T) {
	var ts targets
	for i := range maxTargets + 10 {
		url := fmt.Sprintf("http://host/%d", i)
		first, err := ts.of(url)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := ts.of(url); again != first {
			t.Fatalf("%s was parsed twice", url)
		}
	}
	if n := len(ts.byURL); n != 10 {
		t.Errorf("%d URLs are cached, want the 10 after it was full", n)
	}
}

// No URL, step name or header may inject a second request or an additional header.
func FuzzAHeadIsOneRequestAndNoMore(f *testing.F) {
	f.Add("http://host/a?b", "step", "X-A", "b")
	f.Add("http://h\u00e9/ x", "a\r\nb", "X A", "b\r\nc")
	f.Add("https://[::1%25\r]:1/\x7f", "\x00", "", " ")
	c := New(Config{})
	f.Fuzz(func(t *testing.T, url, step, name, value string) {
		call := callTo(url)
		call.Step, call.Key = step, "id/"+step+"/execute"
		call.By.HTTP.Headers = map[string]string{name: value}
		target, err := parseTarget(url)
		if err != nil {
			return
		}
		head, err := c.appendHead(nil, target, &call, instant)
		if err != nil {
			return
		}
		for i, line := range strings.Split(strings.TrimSuffix(string(head), "\r\n\r\n"), "\r\n") {
			if i > 15 || line == "" || strings.ContainsAny(line, "\r\n\x00") {
				t.Fatalf("line %d of the head is %q:\n%q", i, line, head)
			}
		}
		if name != "X-A" { // the definition's rules may reject other names
			return
		}
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(head) + string(call.Body))))
		if err != nil {
			t.Fatalf("%v:\n%q", err, head)
		}
		if req.Header.Get(name) != strings.TrimSpace(value) || req.ContentLength != int64(len(call.Body)) {
			t.Errorf("header %q, length %d; want %q, %d", req.Header.Get(name), req.ContentLength, value, len(call.Body))
		}
	})
}
