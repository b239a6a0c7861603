package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/test/patience"
)

// inMemory starts a node without a database.
func inMemory(t *testing.T, change func(*config.Config)) (addr string, n *node) {
	t.Helper()
	n = start(t, "", "a", func(c *config.Config) { c.Store = config.Memory; change(c) })
	return strings.TrimPrefix(n.url, "http://"), n
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// everByte sends text repeatedly, one byte at a time, until the other side closes, and returns
// the response.
func everByte(conn net.Conn, head, text string) string {
	_, err := io.WriteString(conn, head)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; err == nil; i++ {
			time.Sleep(10 * time.Millisecond)
			_, err = conn.Write([]byte{text[i%len(text)]})
		}
	}()
	answer, _ := io.ReadAll(conn)
	conn.Close()
	<-done
	return string(answer)
}

func TestClientsThatSendAByteNowAndThenAreCutOff(t *testing.T) {
	t.Parallel()
	addr, _ := inMemory(t, func(c *config.Config) {
		c.Server.HeaderTimeout, c.Server.MinBodyRate, c.Server.ReadTimeout = 100*time.Millisecond, 1000, 10*time.Minute
	})
	const length = "Host: localhost\r\nContent-Length: 1000000\r\nContent-Type: application/json\r\n\r\n"
	for _, tt := range []struct{ name, head, text, answer string }{
		{"headers", "GET /api/v1/sagas HTTP/1.1\r\n", "X-A: b\r\n", ""},
		{"a body", "POST /api/v1/sagas HTTP/1.1\r\n" + length, " ", "408 Request Timeout"},
		{"a chunked body", "POST /api/v1/sagas HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" +
			"Content-Type: application/json\r\n\r\n", "1\r\n \r\n", "408 Request Timeout"},
		{"a body that nobody reads", "GET /api/v1/sagas HTTP/1.1\r\n" + length, " ", "200 OK"},
		{"a body of a path that does not exist", "POST /nowhere HTTP/1.1\r\n" + length, " ", "404 Not Found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if answer := everByte(dial(t, addr), tt.head, tt.text); !strings.Contains(answer, tt.answer) {
				t.Errorf("answered %q, want %q", answer, tt.answer)
			}
		})
	}
}

func TestABodyMayPauseWithinItsByteRate(t *testing.T) {
	t.Parallel()
	addr, _ := inMemory(t, func(c *config.Config) {
		c.Server.HeaderTimeout, c.Server.MinBodyRate = 50*time.Millisecond, 1
	})
	conn := dial(t, addr)
	body := `{"workflow_name": "nobody", "payload": "` + strings.Repeat("x", 100) + `"}` // its size allows 100 s
	fmt.Fprintf(conn, "POST /api/v1/sagas HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"+
		"Content-Type: application/json\r\n\r\n%s", len(body), body[:len(body)-1])
	time.Sleep(150 * time.Millisecond) // three times the grace
	io.WriteString(conn, body[len(body)-1:])
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusUnprocessableEntity { // no such workflow
		t.Errorf("answered %d", res.StatusCode)
	}
}

func TestAClientHoldsNoMoreConnectionsThanItMay(t *testing.T) {
	t.Parallel()
	addr, n := inMemory(t, func(c *config.Config) { c.Server.MaxConnsPerAddr = 3 })
	served := func(conn net.Conn) bool {
		io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusOK
	}
	var open []net.Conn
	for range 3 {
		open = append(open, dial(t, addr))
		if !served(open[len(open)-1]) {
			t.Fatal("a connection within the limit is not served")
		}
	}
	if served(dial(t, addr)) {
		t.Error("a fourth connection is served")
	}
	if !served(open[0]) {
		t.Error("a connection within the limit is closed by the fourth")
	}
	open[0].Close()
	// Once the server has seen the close.
	patience.Until(t, "a place that is free again is given away", func() bool { return served(dial(t, addr)) })
	open[1].Close()
	open[2].Close()
	var text []byte
	patience.Until(t, "the metrics are served", func() bool {
		res, err := http.Get(n.url + "/metrics")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, err = io.ReadAll(res.Body)
		return err == nil
	})
	if !strings.Contains(string(text), "skald_http_connections_refused_total") ||
		strings.Contains(string(text), "skald_http_connections_refused_total 0") {
		t.Error("the metric does not count what was refused")
	}
}

func TestARequestWithTwoLengthsIsRefused(t *testing.T) {
	t.Parallel()
	addr, _ := inMemory(t, func(*config.Config) {})
	conn := dial(t, addr)
	io.WriteString(conn, "POST /api/v1/sagas HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
	answer, err := io.ReadAll(conn) // to the end: the connection is closed
	if err != nil && len(answer) == 0 {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") || !strings.Contains(string(answer), "REQ_TWO_LENGTHS") {
		t.Errorf("answered %q", answer)
	}
}
