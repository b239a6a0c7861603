package dlq_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
)

func TestHeadersGoUnderTheirOwnNamesWhereThatIsSafe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		content dlq.Content
		foreign bool // the target is on a host other than the letter's own
		want    []dlq.Header
		media   string
	}{
		"in their order, repetitions too": {
			content: dlq.Content{Headers: headers("x-tenant", "acme", "Correlation-Id", "7", "x-tenant", "acme two")},
			want:    headers("x-tenant", "acme", "Correlation-Id", "7", "x-tenant", "acme two"),
		},
		"a key that is not text": {content: dlq.Content{Key: []byte("c-17/\xff é")}, want: headers("X-Dlq-Key", "c-17%2F%FF%20%C3%A9")},
		"an empty key":           {content: dlq.Content{Key: []byte{}}, want: headers("X-Dlq-Key", "")},
		"names that proxies drop": {
			content: dlq.Content{Headers: headers("tenant_id", "a", "a.b", "1", "", "nameless", "sp ace", "x")},
			want: headers("X-Dlq-Header", "tenant_id=a", "X-Dlq-Header", "a.b=1", "X-Dlq-Header", "=nameless",
				"X-Dlq-Header", "sp%20ace=x"),
		},
		"values that a line cannot hold": {
			content: dlq.Content{Headers: append(headers("a", "1\r\nHost: evil", "b", " blank", "c", "é", "d", ""),
				dlq.Header{Name: "e"})},
			want: headers("X-Dlq-Header", "a=1%0D%0AHost%3A%20evil", "X-Dlq-Header", "b=%20blank", "X-Dlq-Header",
				"c=%C3%A9", "d", "",
				"X-Dlq-Header", "e"),
		},
		"all of a name or none": {
			content: dlq.Content{Headers: headers("x-tenant", "right", "X-Tenant", "wr\x00ng")},
			want:    headers("X-Dlq-Header", "x-tenant=right", "X-Dlq-Header", "X-Tenant=wr%00ng"),
		},
		"what means something in HTTP": {
			content: dlq.Content{Headers: headers("Host", "evil", "content-length", "0", "Transfer-Encoding", "chunked",
				"X-Forwarded-For", "10.0.0.1",
				"Idempotency-Key", "theirs", "X-Saga-Fence", "9", "Content-Encoding", "gzip")},
			want: headers("X-Dlq-Header", "Host=evil", "X-Dlq-Header", "content-length=0", "X-Dlq-Header",
				"Transfer-Encoding=chunked",
				"X-Dlq-Header", "X-Forwarded-For=10.0.0.1", "X-Dlq-Header", "Idempotency-Key=theirs", "X-Dlq-Header",
				"X-Saga-Fence=9",
				"X-Dlq-Header", "Content-Encoding=gzip"),
		},
		"credentials to the letter's own host": {
			content: dlq.Content{Headers: headers("Authorization", "Bearer x", "proxy-authorization", "y")},
			want:    headers("Authorization", "Bearer x", "X-Dlq-Header", "proxy-authorization=y"),
		},
		"credentials to another host": {
			content: dlq.Content{Headers: headers("Authorization", "Bearer x", "X_Api_Key", "y", "x-tenant", "acme")},
			foreign: true,
			want:    headers("X-Dlq-Withheld", "Authorization", "X-Dlq-Withheld", "X_Api_Key", "x-tenant", "acme"),
		},
		"what is told otherwise": {
			content: dlq.Content{Headers: headers("x-dlq-attempt", "3", "kafka_dlt-exception-stacktrace", strings.Repeat("at x\n", 20_000), "error", "mine")},
			want:    headers("error", "mine"),
		},
		"trace and type": {
			content: dlq.Content{Headers: headers("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "content-type", "application/vnd.a+json;v=1")},
			want:    headers("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), media: "application/vnd.a+json; v=1",
		},
		"what a trace carries": {
			content: dlq.Content{Headers: headers("tracestate", "congo=t61,rojo=0", "baggage", "a=1;ttl=3", "baggage", "b=2")},
			want:    headers("tracestate", "congo=t61,rojo=0", "baggage", "a=1;ttl=3", "baggage", "b=2"),
		},
		"several types": {
			content: dlq.Content{Headers: headers("content-type", "text/plain", "Content-Type", "a\r\nX: y")},
			want:    headers("X-Dlq-Header", "content-type=text%2Fplain", "X-Dlq-Header", "Content-Type=a%0D%0AX%3A%20y"),
			media:   "text/plain",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := dlq.CarryOverHTTP(tt.content, !tt.foreign)
			if d := cmp.Diff(tt.want, got.Headers); err != nil || d != "" || got.ContentType != tt.media {
				t.Errorf("%v, type %q (-want +got):\n%s", err, got.ContentType, d)
			}
		})
	}
}

func TestHeadersThatNoRequestCarriesAreRefused(t *testing.T) {
	t.Parallel()
	fits := dlq.MaxHTTPHeaders - len("a: \r\n")
	if _, err := dlq.CarryOverHTTP(dlq.Content{Headers: headers("a", strings.Repeat("x", fits))}, true); err != nil {
		t.Errorf("as much as fits: %v", err)
	}
	_, err := dlq.CarryOverHTTP(dlq.Content{Headers: headers("a", strings.Repeat("x", fits+1))}, true)
	if f := fault.As(err); f == nil || f.Kind != fault.Invalid || f.Fields[0].Pointer != "/headers" {
		t.Errorf("one byte more: %v", err)
	}
}

// Encoded text must be distinguishable from plain text, and must decode to exactly the same bytes.
func FuzzWhatARequestCarriesIsTheRecord(f *testing.F) {
	f.Add("x-tenant", []byte("acme"), "tenant_id", []byte("\xff=%"), []byte("key"))
	f.Add("Host", []byte("a\r\nb"), "", []byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, a string, av []byte, b string, bv []byte, key []byte) {
		in := dlq.Content{Key: key, Headers: []dlq.Header{{Name: a, Value: av}, {Name: b, Value: bv}}}
		got, err := dlq.CarryOverHTTP(in, true)
		if err != nil {
			return
		}
		told := map[string]bool{}
		for _, h := range got.Headers {
			for _, c := range append([]byte(h.Name), h.Value...) {
				if c < ' ' || c > '~' {
					t.Fatalf("%q: %q is on the wire", h.Name, h.Value)
				}
			}
			switch h.Name {
			case dlq.HTTPKey:
				if back, err := url.PathUnescape(string(h.Value)); err != nil || back != string(key) {
					t.Errorf("key %q came as %q", key, h.Value)
				}
			case dlq.HTTPHeader:
				name, value, has := strings.Cut(string(h.Value), "=")
				name, _ = url.PathUnescape(name)
				value, _ = url.PathUnescape(value)
				told[name+"\x00"+value+map[bool]string{false: "\x00none"}[has]] = true
			default:
				told[h.Name+"\x00"+string(h.Value)] = true
			}
		}
		for _, h := range in.Headers {
			none := ""
			if h.Value == nil {
				none = "\x00none"
			}
			lower := strings.ToLower(h.Name)
			if lower != "traceparent" && lower != "content-type" && len(got.Dropped) == 0 &&
				!told[h.Name+"\x00"+string(h.Value)+none] {
				t.Errorf("%q: %q is not in %v", h.Name, h.Value, got.Headers)
			}
		}
	})
}

func TestAnEditedLetterGoesOutUnderAnotherKey(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	was := dlq.Content{Payload: []byte("{}"), Key: []byte("k"), Headers: headers("a", "1")}
	drive := func(send dlq.Content) *dlq.Drive {
		return &dlq.Drive{Letter: dlq.Letter{ID: uuid.New(), RootID: id, Generation: 2, Content: was}, Send: send}
	}
	plain := id.String() + "/2"
	if key := drive(was).IdempotencyKey(); key != plain {
		t.Errorf("as it came: %q, want %q", key, plain)
	}
	keys := map[string]string{plain: "the original"}
	for name, send := range map[string]dlq.Content{
		"payload":        {Payload: []byte("[]"), Key: was.Key, Headers: was.Headers},
		"key":            {Payload: was.Payload, Key: []byte{}, Headers: was.Headers},
		"headers":        {Payload: was.Payload, Key: was.Key, Headers: headers("a", "2")},
		"no headers":     {Payload: was.Payload, Key: was.Key, Headers: []dlq.Header{}},
		"a header moved": {Payload: was.Payload, Key: was.Key, Headers: headers("a", "1", "b", "")},
	} {
		key := drive(send).IdempotencyKey()
		if other, taken := keys[key]; taken || !strings.HasPrefix(key, plain+"/") || key != drive(send).IdempotencyKey() {
			t.Errorf("%s: %q, which is that of %s", name, key, other)
		}
		keys[key] = name
	}
	if again := drive(dlq.Content{Payload: []byte("{}"), Key: []byte("k"),
		Headers: headers("a", "1")}); again.EditTag() != "" {
		t.Errorf("edited back: %q", again.EditTag())
	}
}
