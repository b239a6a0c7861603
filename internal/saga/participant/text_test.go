package participant

import (
	"bufio"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/retry"
	"github.com/skald-saga/skald/internal/saga"
)

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "1": time.Second, " 90 ": 90 * time.Second, "00010": 10 * time.Second,
		"86400": 24 * time.Hour, "86401": 24 * time.Hour, "99999999999999999999999999": 24 * time.Hour,
		"-1": 0, "+1": 0, "1.5": 0, "1s": 0, "soon": 0, "0x10": 0, "١": 0,
		"Wed, 04 Mar 2026 04:07:07 GMT":     time.Minute - 123456789,
		"Wednesday, 04-Mar-26 04:07:07 GMT": time.Minute - 123456789,
		"Wed Mar  4 04:07:07 2026":          time.Minute - 123456789,
		"Wed, 04 Mar 2026 04:06:07 GMT":     0,
		"Wed, 04 Mar 1026 04:06:07 GMT":     0,
		"Wed, 04 Mar 9026 04:06:07 GMT":     24 * time.Hour,
	} {
		if got := retry.After(header, instant); got != want {
			t.Errorf("Retry-After %q: %s, want %s", header, got, want)
		}
	}
}

func FuzzRetryAfterIsWithinADay(f *testing.F) {
	for _, s := range []string{"1", "-1", "1e3", "99999999999", "Wed, 04 Mar 2026 04:07:07 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT"} {
		f.Add(s, int64(0))
		f.Add(s, int64(math.MaxInt64))
	}
	f.Fuzz(func(t *testing.T, header string, now int64) {
		if d := retry.After(header, time.Unix(now, 0)); d < 0 || d > 24*time.Hour {
			t.Errorf("Retry-After %q: %s", header, d)
		}
	})
}

func TestTheMessageOfARefusal(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"a","message":"b","detail":"c","title":"d"}`: "a",
		`{"message":"b","detail":"c","title":"d"}`:             "b",
		`{"detail":"c","title":"d"}`:                           "c",
		`{"title":"d"}`:                                        "d",
		`{"error":{"code":1},"message":"b"}`:                   "b",
		`{"error":"","message":" \n ","detail":7,"title":"d"}`: "d",
		`{"reason":"x"}`:                                       "",
		`"text"`:                                               "",
		`[{"error":"a"}]`:                                      "",
		`null`:                                                 "",
		`{"error":"two\nlines\u001b[31m \u202eright to left"}`: "two lines [31m  right to left",
	} {
		if got := messageIn([]byte(body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestMessagesAreCutBetweenCharacters(t *testing.T) {
	for in, want := range map[string]string{
		strings.Repeat("a", 1000):            strings.Repeat("a", 1000),
		strings.Repeat("a", 1001):            strings.Repeat("a", 1000),
		strings.Repeat("約", 5000):            strings.Repeat("約", 1000),
		strings.Repeat("a", 999) + " " + "b": strings.Repeat("a", 999),
		"\xff\xfe a":                         "\ufffd a",
	} {
		if got := cleaned(in); got != want {
			t.Errorf("cleaned(%.20q…) has %d characters: %.20q…", in, utf8.RuneCountInString(got), got)
		}
	}
}

func FuzzCleanedTextIsHarmless(f *testing.F) {
	for _, s := range []string{"", "a\x00b", "\xff", "\u202e", "\u2028x", strings.Repeat("é\n", 2000), "\x1b[2J"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := cleaned(s)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > maxMessage || cleaned(got) != got {
			t.Errorf("cleaned(%q) = %q", s, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("cleaned(%q) contains %U", s, r)
			}
		}
	})
}

// Whatever a participant sends, the outcome is one that the rules accept and a store can hold.
func FuzzAnyAnswerHasAnOutcome(f *testing.F) {
	for _, s := range []string{
		okAnswer, response("409 Conflict", "Retry-After: 1\r\n", `{"error":"\ud800"}`),
		response("503 x", "Retry-After: 1\r\n", "[[["),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "HTTP/1.0 999 \r\n\r\n\x00",
		"HTTP/1.1 100 Continue\r\n\r\n" + okAnswer, "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999\r\n\r\n1",
	} {
		f.Add([]byte(s))
	}
	c := New(Config{MaxResponseBytes: 1 << 10, Now: func() time.Time { return instant }})
	f.Fuzz(func(t *testing.T, raw []byte) {
		cn := &conn{}
		cn.r = bufio.NewReader(strings.NewReader(string(raw)))
		a, err := cn.receive(c.cfg.MaxResponseBytes)
		o := noAnswer(t.Context(), err)
		if err == nil {
			o = c.answered(a)
		}
		switch o.Verdict {
		case saga.Done:
			if o.Class != "" || o.Code != "" || o.Message != "" {
				t.Errorf("done with class %q, code %q, message %q", o.Class, o.Code, o.Message)
			}
		case saga.Refused:
			if o.Class != retry.Refused || a.status < 400 || a.status > 499 {
				t.Errorf("refused with class %q, status %d", o.Class, a.status)
			}
		case saga.Unknown, saga.NotApplied:
			if o.Class == retry.Refused || o.Class == "" || o.Code == "" {
				t.Errorf("verdict %d with class %q, code %q", o.Verdict, o.Class, o.Code)
			}
		default:
			t.Errorf("verdict %d", o.Verdict)
		}
		for _, j := range []json.RawMessage{o.Output, o.Response} {
			if j != nil && (!json.Valid(j) || len(j) > 1<<10 || strings.Contains(string(j), `\u0000`)) {
				t.Errorf("cannot be stored: %q", j)
			}
		}
		if cleaned(o.Message) != o.Message || o.RetryAfter < 0 || o.RetryAfter > 24*time.Hour {
			t.Errorf("message %q, retry after %s", o.Message, o.RetryAfter)
		}
	})
}

// S2-50: a failure includes the stack trace and the cause that the participant gives, whatever its
// status.
func TestWhyAParticipantFailed(t *testing.T) {
	deep := `"too deep"`
	for range 10 {
		deep = `{"message":"m","cause":` + deep + `}`
	}
	for _, tt := range []struct {
		body, trace string
		cause       *saga.Error
	}{
		{`{"message":"no","stack_trace":"at a\n\tat b\u0007"}`, "at a\n\tat b", nil},
		{`{"cause":"the disk is full"}`, "", &saga.Error{Code: "participant", Type: "participant", Message: "the disk is full"}},
		{`{"cause":{"code":"ENOSPC","type":"io","message":"disk\nfull","stack_trace":"at c","cause":"quota"}}`, "",
			&saga.Error{Code: "ENOSPC", Type: "io", Message: "disk full", StackTrace: "at c",
				Cause: &saga.Error{Code: "participant", Type: "participant", Message: "quota"}}},
		{`{"stack_trace":7,"cause":{"code":"no message"}}`, "", nil},
		{`{"stack_trace":null,"cause":null}`, "", nil},
		{`{"cause":""}`, "", nil},
		{`{"cause":[1]}`, "", nil},
		{`["stack_trace"]`, "", nil},
		{`{"stack_trace":"` + strings.Repeat("é", 9000) + `"}`, strings.Repeat("é", 8000), nil},
	} {
		trace, cause := whyIn([]byte(tt.body))
		if diff := cmp.Diff(tt.cause, cause); diff != "" || trace != tt.trace {
			t.Errorf("%.60s: stack trace %q, cause (-want +got):\n%s", tt.body, trace, diff)
		}
	}
	n := 0
	for _, e := whyIn([]byte(`{"cause":` + deep + `}`)); e != nil; e = e.Cause {
		n++
	}
	if n != maxCauses {
		t.Errorf("%d causes of causes, want %d", n, maxCauses)
	}
}
