package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// local is an http.RoundTripper that calls the API of this process on behalf of the visitor whose
// request is in the context, with the same credentials and from the same address. A page thus
// passes the same checks as a program that sends the request over the network, and gets the same
// responses.
type local struct{ api http.Handler }

type visitorKey struct{}

type visitor struct {
	*http.Request
	calls *calls
}

// onBehalfOf returns a context in which requests through local are made on behalf of the visitor
// who sent r. They are recorded in made.
func onBehalfOf(r *http.Request, made *calls) context.Context {
	return context.WithValue(r.Context(), visitorKey{}, visitor{r, made})
}

// carried lists the headers of the visitor's request that are also sent to the API: the
// credentials, the proof that the request was sent by a page of this server, and whether it reached
// a proxy over TLS.
var carried = []string{"Authorization", "Cookie", "Sec-Fetch-Site", "Origin", "X-Tenant-Id", "X-Forwarded-Proto"}

// ChangesNothing marks a page's request that changes nothing although it is a POST, such as a dry
// run. This server has composed it, so it needs no proof that one of its pages sent it. Browsers
// send no such proof for an address that was typed or bookmarked.
func ChangesNothing(_ context.Context, r *http.Request) error {
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return nil
}

// RoundTrip implements http.RoundTripper. It never returns an error, because the API responds to
// every request.
func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	in.URL.Scheme, in.URL.Host = "", "" // as a server receives it
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if by, ok := r.Context().Value(visitorKey{}).(visitor); ok {
		in.RemoteAddr, in.Host, in.TLS = by.RemoteAddr, by.Host, by.TLS
		for _, name := range carried {
			if values := by.Header.Values(name); values != nil && in.Header.Get(name) == "" {
				in.Header[name] = values
			}
		}
		by.calls.add(in)
	}
	out := &answer{header: http.Header{}}
	l.api.ServeHTTP(out, in)
	if out.status == 0 {
		out.status = http.StatusOK
	}
	return &http.Response{
		Status: http.StatusText(out.status), StatusCode: out.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: out.header, Body: io.NopCloser(&out.body), ContentLength: int64(out.body.Len()), Request: r,
	}, nil
}

// answer keeps a response in memory.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush exists for responses that are sent in pieces; all pieces are kept.
func (a *answer) Flush() {}

// SetReadDeadline does nothing, because there is no connection.
func (a *answer) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing, because there is no connection.
func (a *answer) SetWriteDeadline(time.Time) error { return nil }

// AsQuery replaces the query of a request of the client. It is for lists whose parameters are those
// of the page's URL, so that the API reports what is wrong with them.
func AsQuery(q url.Values) client.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.URL.RawQuery = q.Encode()
		return nil
	}
}

// calls contains the requests made for one visit, in order. Pages call the API sequentially or
// under a lock of their own.
type calls struct{ made []*http.Request }

func (c *calls) add(r *http.Request) { c.made = append(c.made, r) }

func (c *calls) reset() { c.made = nil }

// asCurl shows the read requests as commands. Credentials are replaced by placeholders.
func (c *calls) asCurl(by *http.Request, base string) (commands []string) {
	for _, r := range c.made {
		if r.Method == http.MethodGet {
			commands = append(commands, Curl(by, base, r.Method, r.URL.RequestURI(), nil))
		}
	}
	return commands
}

// Curl returns the command that sends a request to this server, with the body as JSON unless it is
// empty.
func Curl(by *http.Request, base, method, path string, body []byte) string {
	command := "curl"
	if method != http.MethodGet {
		command += " -X " + method
	}
	command += " " + quoted(fmt.Sprintf("%s://%s%s%s", schemeOf(by), by.Host, base, path))
	if by.Header.Get("Authorization") != "" || by.Header.Get("Cookie") != "" {
		command += ` -H "Authorization: Bearer $SKALD_API_KEY"`
	}
	if tenant := by.Header.Get("X-Tenant-Id"); tenant != "" {
		command += " -H " + quoted("X-Tenant-Id: "+tenant)
	}
	if len(body) > 0 {
		command += " -H 'Content-Type: application/json' -d " + quoted(string(body))
	}
	return command
}

var hosts = regexp.MustCompile(`^[A-Za-z0-9.:\[\]_-]+$`)

// Address returns the URL of this server with its base, as used by the visitor.
func (v *Visit) Address() string {
	if v.Kit.PublicURL != "" {
		return v.Kit.PublicURL
	}
	if !hosts.MatchString(v.Host) { // it would become part of a command
		return "http://127.0.0.1:8080" + v.Kit.Base
	}
	return schemeOf(v.Request) + "://" + v.Host + v.Kit.Base
}

// schemeOf returns the scheme with which a request reached this server or the proxy in front of it.
func schemeOf(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https"
	}
	return "http"
}

// quoted returns s quoted as a single word for a shell.
func quoted(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
