package participant

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

// response writes an answer with a correct Content-Length.
func response(status, headers, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", status, headers, len(body), body)
}

// zipped writes an answer whose body is compressed.
func zipped(status, body string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, body)
	_ = w.Close()
	return response(status, "Content-Encoding: gzip\r\n", b.String())
}

// chunked writes an answer of unknown length.
func chunked(status, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", status, len(body), body)
}

const maxTestBody = 64 << 10

func TestOutcomesOfAnswers(t *testing.T) {
	type want struct {
		verdict          saga.Verdict
		class            retry.Class
		code, message    string // part of the message
		output, response string
		retryAfter       time.Duration
		closed           bool // the connection must not be reused
	}
	garbage := func(message string) want {
		return want{verdict: saga.Unknown, class: retry.BadResponse, code: CodeInvalidResponse, message: message}
	}
	redirect := func(code string) want {
		return want{verdict: saga.Unknown, class: retry.BadResponse, code: code, message: "neither a success nor a failure"}
	}
	lost := want{
		verdict: saga.Unknown,
		class:   retry.Network,
		code:    CodeConnectionLost,
		message: "before the complete response",
		closed:  true,
	}
	notHTTP := want{
		verdict: saga.Unknown,
		class:   retry.BadResponse,
		code:    CodeInvalidResponse,
		message: "not valid HTTP",
		closed:  true,
	}
	notGzip := garbage("not valid gzip")
	notGzip.closed = true
	refusal := func(status int, message, response string) want {
		return want{verdict: saga.Refused, class: retry.Refused, code: fmt.Sprint("http_", status), message: message,
			response: response, closed: true}
	}
	long := `{"error":"sold out","code":"OUT","stack":"` + strings.Repeat("x", maxTestBody) + `"}` // beyond the limit
	tooLarge := want{verdict: saga.Unknown, class: retry.BadResponse, code: CodeResponseTooLarge, closed: true}

	for _, tt := range []struct {
		name, answer string
		want         want
	}{
		{"200 with JSON", response("200 OK", "", ` {"b": 1, "a": [1.50, "é"]} `), want{verdict: saga.Done, output: `{"a":[1.50,"é"],"b":1}`}},
		{"200 with a JSON scalar", response("200 OK", "", `null`), want{verdict: saga.Done, output: `null`}},
		{"200 without a body", response("200 OK", "", ""), want{verdict: saga.Done}},
		{"200 with blanks only", response("200 OK", "", "\r\n "), want{verdict: saga.Done}},
		{"201 with JSON", response("201 Created", "", `[]`), want{verdict: saga.Done, output: `[]`}},
		{"202 with JSON", response("202 Accepted", "", `{}`), want{verdict: saga.Done, output: `{}`}},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", want{verdict: saga.Done}},
		{"the media type does not matter", response("200 OK", "Content-Type: text/plain\r\n", `1`), want{verdict: saga.Done, output: `1`}},
		{"a body in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\n[1,\r\n2\r\n2]\r\n0\r\nX: y\r\n\r\n", want{verdict: saga.Done, output: `[1,2]`}},
		{"a body up to the end of the connection", "HTTP/1.1 200 OK\r\n\r\n[1]", want{verdict: saga.Done, output: `[1]`, closed: true}},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", want{verdict: saga.Done, output: `{}`, closed: true}},
		{"Connection: close", response("200 OK", "Connection: close\r\n", `{}`), want{verdict: saga.Done, output: `{}`, closed: true}},
		{"hints before the answer", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + response("200 OK", "", `{}`), want{verdict: saga.Done, output: `{}`}},
		{"a body of exactly the limit", response("200 OK", "", `"`+strings.Repeat("x", maxTestBody-2)+`"`), want{verdict: saga.Done, output: `"` + strings.Repeat("x", maxTestBody-2) + `"`}},
		{"bytes behind the answer", response("200 OK", "", `{}`) + "HTTP/1.1 500 Oops\r\n\r\n", want{verdict: saga.Done, output: `{}`, closed: true}},

		{"text instead of JSON", response("200 OK", "", "<html>it works</html>"), garbage("cannot be used")},
		{"two JSON values", response("200 OK", "", "{}{}"), garbage("trailing_data")},
		{"a NUL character", response("200 OK", "", `{"a":"\u0000"}`), garbage("nul_character")},
		{"a NUL byte", response("200 OK", "", "{\"a\":\"\x00\"}"), garbage("nul_character")},
		{"half a surrogate pair", response("200 OK", "", `{"a":"\ud800"}`), garbage("lone_surrogate")},
		{"not UTF-8", response("200 OK", "", "{\"a\":\"\xff\"}"), garbage("invalid_utf8")},
		{"duplicate keys", response("200 OK", "", `{"a":1,"a":2}`), garbage("duplicate_key")},
		{"nested too deeply", response("200 OK", "", strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000)), garbage("too_deep")},
		{"a number no database holds", response("200 OK", "", `1e999999999`), garbage("number_out_of_range")},
		{"compressed though not asked for", response("200 OK", "Content-Encoding: gzip\r\n", "\x1f\x8b\x08\x00"), notGzip},
		{"compressed", zipped("200 OK", `{"a":1}`), want{verdict: saga.Done, output: `{"a":1}`, closed: true}},
		{"compressed, and without a body", response("200 OK", "Content-Encoding: gzip\r\n", ""), want{verdict: saga.Done, closed: true}},
		{"compressed, and too large", zipped("200 OK", strings.Repeat(" ", maxTestBody)+"1"), tooLarge},
		{"compressed, and cut", zipped("200 OK", strings.Repeat("1", 1000))[:80], lost},
		{"compressed in another way", response("200 OK", "Content-Encoding: br\r\n", "\x0b\x02\x80{}\x03"), garbage("cannot be used")},
		{"a byte order mark", response("200 OK", "", "\ufeff{}"), want{verdict: saga.Done, output: `{}`}},
		{"another charset", response("200 OK", "Content-Type: application/json; charset=iso-8859-1\r\n", "{\"a\":\"\xe9\"}"), garbage("invalid_utf8")},
		{"too small a Content-Length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{\"a\":1}", want{verdict: saga.Unknown, class: retry.BadResponse, code: CodeInvalidResponse, closed: true}},
		{"too large", response("200 OK", "", strings.Repeat(" ", maxTestBody)+"1"), tooLarge},
		{"too large in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1000\r\n"+strings.Repeat("1", 0x1000)+"\r\n", 17) + "0\r\n\r\n", tooLarge},
		{"too large by its numbers", response("200 OK", "", "["+strings.Repeat("1e399,", 150)+strings.Repeat("1,", 4000)+"1]"), want{verdict: saga.Unknown, class: retry.BadResponse, code: CodeResponseTooLarge}},
		{"blown up by its numbers", response("200 OK", "", "["+strings.Repeat("1e399,", 1000)+"1]"), want{verdict: saga.Unknown, class: retry.BadResponse, code: CodeInvalidResponse}},
		{"a promise of 50 MB", "HTTP/1.1 200 OK\r\nContent-Length: 52428800\r\n\r\n{", tooLarge},
		{"a header without end", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead), tooLarge},
		{"headers without number", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", maxHead/6), tooLarge},

		{"301", response("301 Moved Permanently", "Location: http://127.0.0.1:1/\r\n", ""), redirect("http_301")},
		{"302 with a body", response("302 Found", "Location: /\r\n", "{}"), redirect("http_302")},
		{"304", "HTTP/1.1 304 Not Modified\r\n\r\n", redirect("http_304")},
		{"307", response("307 Temporary Redirect", "Location: /\r\n", ""), redirect("http_307")},
		{"308", response("308 Permanent Redirect", "Location: /\r\n", ""), redirect("http_308")},
		{"600", response("600 What", "", ""), redirect("http_600")},
		{"000", response("000 What", "", ""), want{verdict: saga.Unknown, class: retry.BadResponse, code: "http_0", closed: true}},
		{"101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", want{verdict: saga.Unknown, class: retry.BadResponse, code: "http_101", closed: true}},
		{"hints without end", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 50), want{verdict: saga.Unknown, class: retry.BadResponse, code: "http_103", closed: true}},

		{"400", response("400 Bad Request", "", `{"b":1,"error":"no such sku"}`), want{verdict: saga.Refused, class: retry.Refused, code: "http_400", message: "no such sku", response: `{"b":1,"error":"no such sku"}`}},
		{"404 without a body", response("404 Not Found", "", ""), want{verdict: saga.Refused, class: retry.Refused, code: "http_404", message: "the participant answered 404 Not Found"}},
		{"409 with a problem document", response("409 Conflict", "", `{"title":"Conflict","detail":"sold out"}`), want{verdict: saga.Refused, class: retry.Refused, code: "http_409", message: "sold out", response: `{"title":"Conflict","detail":"sold out"}`}},
		{"409 with HTML", response("409 Conflict", "", `<h1>no</h1>`), want{verdict: saga.Refused, class: retry.Refused, code: "http_409", message: "409 Conflict"}},
		{"409 with a NUL", response("409 Conflict", "", `{"error":"a\u0000b\ud800"}`), want{verdict: saga.Refused, class: retry.Refused, code: "http_409", message: "a\uFFFDb\uFFFD"}},
		{"409 with a key twice", response("409 Conflict", "", `{"error":"a","error":"b"}`), want{verdict: saga.Refused, class: retry.Refused, code: "http_409", message: "409 Conflict"}},
		{"422 ignores Retry-After", response("422 Unprocessable Entity", "Retry-After: 5\r\n", `{"message":"no"}`), want{verdict: saga.Refused, class: retry.Refused, code: "http_422", message: "no", response: `{"message":"no"}`}},
		{"499", response("499 Whatever", "", ""), want{verdict: saga.Refused, class: retry.Refused, code: "http_499", message: "the participant answered 499"}},

		{"409 that is too large", response("409 Conflict", "Retry-After: 5\r\n", long), refusal(409, "sold out", `{"_cut":true,"code":"OUT","error":"sold out"}`)},
		{"409 that is too large in chunks", chunked("409 Conflict", long), refusal(409, "sold out", `{"_cut":true,"code":"OUT","error":"sold out"}`)},
		{"409 that promises 50 MB", "HTTP/1.1 409 Conflict\r\nContent-Length: 52428800\r\n\r\n" + long, refusal(409, "sold out", `{"_cut":true,"code":"OUT","error":"sold out"}`)},
		{"409 that is too large and no object", response("409 Conflict", "", strings.Repeat(" ", maxTestBody)+"1"), refusal(409, "409 Conflict", `{"_cut":true}`)},
		{"409 that is too large and no JSON", response("409 Conflict", "", strings.Repeat("<", maxTestBody+1)), refusal(409, "409 Conflict", `{"_cut":true}`)},
		{"409 that is too large by its numbers", response("409 Conflict", "", `{"error":"no","n":[`+strings.Repeat("1e399,", 150)+strings.Repeat("1,", 4000)+`1]}`), want{verdict: saga.Refused, class: retry.Refused, code: "http_409", message: "no", response: `{"_cut":true,"error":"no"}`}},
		{"409 cut in its body", "HTTP/1.1 409 Conflict\r\nContent-Length: 500\r\n\r\n" + `{"error":"sold out","code":"OUT","left`, refusal(409, "sold out", `{"_cut":true,"code":"OUT","error":"sold out"}`)},
		{"409 cut in a chunk", "HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n" + `{"error":"sold out",`, refusal(409, "sold out", `{"_cut":true,"error":"sold out"}`)},
		{"409 with half a NUL", "HTTP/1.1 409 Conflict\r\nContent-Length: 500\r\n\r\n" + `{"error":"\u0000",`, refusal(409, "409 Conflict", `{"_cut":true}`)},
		{"409 with too small a Content-Length", "HTTP/1.1 409 Conflict\r\nContent-Length: 5\r\n\r\n{\"a\":1}", want{verdict: saga.Refused, class: retry.Refused, code: "http_409", message: "409 Conflict", closed: true}},
		{"409 compressed", zipped("409 Conflict", `{"error":"sold out"}`), refusal(409, "sold out", `{"error":"sold out"}`)},
		{"409 compressed badly", response("409 Conflict", "Content-Encoding: gzip\r\n", "no"), refusal(409, "409 Conflict", `{"_cut":true}`)},
		{"429 that is too large", response("429 Too Many Requests", "Retry-After: 120\r\n", long), want{verdict: saga.NotApplied, class: retry.Unavailable, code: "http_429", message: "sold out", retryAfter: 2 * time.Minute, closed: true}},
		{"429 cut in its body", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 120\r\nContent-Length: 5\r\n\r\n{}", want{verdict: saga.NotApplied, class: retry.Unavailable, code: "http_429", retryAfter: 2 * time.Minute, closed: true}},
		{"503 that is too large", response("503 Service Unavailable", "Retry-After: 120\r\n", long), want{verdict: saga.Unknown, class: retry.Unavailable, code: "http_503", message: "sold out", retryAfter: 2 * time.Minute, closed: true}},
		{"503 without a valid chunk", "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 120\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", want{verdict: saga.Unknown, class: retry.Unavailable, code: "http_503", retryAfter: 2 * time.Minute, closed: true}},
		{"500 that is too large", response("500 Internal Server Error", "", long), want{verdict: saga.Unknown, class: retry.ServerError, code: "http_500", message: "sold out", closed: true}},
		{"302 that is too large", response("302 Found", "Location: /\r\n", long), want{verdict: saga.Unknown, class: retry.BadResponse, code: "http_302", message: "neither a success nor a failure", closed: true}},

		{"408", response("408 Request Timeout", "Retry-After: 7\r\n", ""), want{verdict: saga.Unknown, class: retry.Unavailable, code: "http_408", retryAfter: 7 * time.Second}},
		{"425", response("425 Too Early", "", ""), want{verdict: saga.NotApplied, class: retry.Unavailable, code: "http_425"}},
		{"429", response("429 Too Many Requests", "Retry-After: 120\r\n", `{"error":"slow down"}`), want{verdict: saga.NotApplied, class: retry.Unavailable, code: "http_429", message: "slow down", retryAfter: 2 * time.Minute}},
		{"500", response("500 Internal Server Error", "", `{"error":"boom"}`), want{verdict: saga.Unknown, class: retry.ServerError, code: "http_500", message: "boom"}},
		{"501", response("501 Not Implemented", "", ""), want{verdict: saga.Unknown, class: retry.ServerError, code: "http_501"}},
		{"502", response("502 Bad Gateway", "", "<html>"), want{verdict: saga.Unknown, class: retry.Unavailable, code: "http_502"}},
		{"503 with a date", response("503 Service Unavailable", "Retry-After: Wed, 04 Mar 2026 04:07:07 GMT\r\n", ""), want{verdict: saga.Unknown, class: retry.Unavailable, code: "http_503", retryAfter: 60*time.Second - 123456789}},
		{"504 ignores Retry-After", response("504 Gateway Timeout", "Retry-After: 5\r\n", ""), want{verdict: saga.Unknown, class: retry.Unavailable, code: "http_504"}},
		{"599", response("599 Whatever", "", ""), want{verdict: saga.Unknown, class: retry.ServerError, code: "http_599"}},

		{"closed without an answer", "", lost},
		{"cut in the status line", "HTTP/1.1 20", lost},
		{"cut in the headers", "HTTP/1.1 200 OK\r\nContent-Le", lost},
		{"cut in the body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}", lost},
		{"cut in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}", lost},
		{"no HTTP at all", "220 smtp.example ESMTP\r\n\r\n", notHTTP},
		{"an HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", notHTTP},
		{"binary garbage", "\x16\x03\x01\x00\xff\r\n\r\n", notHTTP},
		{"a header without colon", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", notHTTP},
		{"a chunk without length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", notHTTP},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n1", notHTTP},
		{"a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", notHTTP},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := serveRaw(t, func(e exchange) bool { e.say(tt.answer); return false })
			c := newClient(t, func(cfg *Config) { cfg.MaxResponseBytes = maxTestBody })
			call := callTo(srv.url())
			o := c.Call(t.Context(), call)
			kept, _ := held(&c.idle)
			got := want{
				o.Verdict,
				o.Class,
				o.Code,
				tt.want.message,
				string(o.Output),
				string(o.Response),
				o.RetryAfter,
				kept == 0,
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if !strings.Contains(o.Message, tt.want.message) || (o.Message == "") != (o.Verdict == saga.Done) {
				t.Errorf("message = %q, want it to contain %q", o.Message, tt.want.message)
			}
			if (o.Output == nil) != (tt.want.output == "") || (o.Response == nil) != (tt.want.response == "") {
				t.Errorf("output %q, response %q: neither may be nil", o.Output, o.Response)
			}
			stamp := time.Date(2026, 3, 4, 4, 6, 7, 123456000, time.UTC)
			if string(o.Request) != string(call.Body) || o.StartedAt != stamp || o.EndedAt != stamp {
				t.Errorf("request %q from %s to %s; want the body, at %s", o.Request, o.StartedAt, o.EndedAt, stamp)
			}
		})
	}
}
