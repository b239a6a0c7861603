package player

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/sdk/conformance"
)

// largeBody is a body size that a participant should accept: sagas may contain up to 8 MiB, and
// calls up to 16 MiB.
const largeBody = 10 << 20

// robustness tests conditions that a request may meet on its way to a participant. Failures lead to
// warnings, because they break no rule.
func (c *player) robustness(ctx context.Context) []certification.Warning {
	warnings := []certification.Warning{}
	for _, try := range []struct {
		code, what string
		answer     func(context.Context, *play, conformance.Call) certification.Reply
	}{
		{"large_body", "A body of 10 MiB", large},
		{"slow_sending", "A body sent in pieces", slow},
		{"gzip_asked_for", "A call that accepts gzip responses", zipped},
		{"http_1_0", "A call over HTTP/1.0", old},
	} {
		v := c.plain()
		r := try.answer(ctx, c.begin(v), v.Calls[0])
		if r.Status/100 != 2 {
			text := fmt.Sprintf("%s got %d %s; expected 2xx.", try.what, r.Status, r.Error)
			warnings = append(warnings, certification.Warning{Code: try.code, Text: text})
		}
	}
	return warnings
}

func large(ctx context.Context, p *play, call conformance.Call) certification.Reply {
	filler, err := json.Marshal(strings.Repeat("x", largeBody))
	if err != nil {
		return certification.Reply{Error: err.Error()}
	}
	call.Members = map[string]json.RawMessage{"padding": filler}
	return p.once(ctx, call)
}

func slow(ctx context.Context, p *play, call conformance.Call) certification.Reply {
	req, err := p.request(ctx, call)
	if err != nil {
		return certification.Reply{Error: err.Error()}
	}
	body := p.body(call)
	reader, writer := io.Pipe()
	defer func() { _ = reader.Close() }()
	go func() {
		for i := range 4 {
			if _, err := writer.Write(body[i*len(body)/4 : (i+1)*len(body)/4]); err != nil || !loop.Sleep(ctx, 4*pause) {
				break
			}
		}
		_ = writer.Close()
	}()
	req.Body, req.GetBody = reader, nil
	return p.do(req)
}

func zipped(ctx context.Context, p *play, call conformance.Call) certification.Reply {
	req, err := p.request(ctx, call)
	if err != nil {
		return certification.Reply{Error: err.Error()}
	}
	req.Header.Set("Accept-Encoding", "gzip")
	return p.do(req)
}

// old makes the call over HTTP/1.0, which Go's client does not support.
func old(ctx context.Context, p *play, call conformance.Call) certification.Reply {
	req, err := p.request(ctx, call)
	if err != nil {
		return certification.Reply{Error: err.Error()}
	}
	host := req.URL.Host
	if req.URL.Port() == "" {
		host = net.JoinHostPort(req.URL.Hostname(), map[string]string{"http": "80", "https": "443"}[req.URL.Scheme])
	}
	conn, err := p.Dial(ctx, "tcp", host)
	if err != nil {
		return certification.Reply{Error: err.Error()}
	}
	defer conn.Close()
	if req.URL.Scheme == "https" {
		secure := p.TLS.Clone()
		if secure == nil {
			secure = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		secure.ServerName = req.URL.Hostname()
		conn = tls.Client(conn, secure)
	}
	if err := conn.SetDeadline(time.Now().Add(p.Timeout)); err != nil {
		return certification.Reply{Error: err.Error()}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "POST %s HTTP/1.0\r\nHost: %s\r\nContent-Length: %d\r\n", req.URL.RequestURI(), req.URL.Host, req.ContentLength)
	if err := req.Header.Write(&text); err != nil {
		return certification.Reply{Error: err.Error()}
	}
	if _, err := io.WriteString(conn, text.String()+"\r\n"+string(p.body(call))); err != nil {
		return certification.Reply{Error: err.Error()}
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return certification.Reply{Error: err.Error()}
	}
	defer res.Body.Close()
	return certification.Reply{Status: res.StatusCode}
}
