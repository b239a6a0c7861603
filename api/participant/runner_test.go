package participant_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/sdk/conformance"
)

const defaultTenant = "00000000-0000-0000-0000-000000000001"

// runner plays one vector against a participant.
type runner struct {
	t       *testing.T
	v       conformance.Vector
	ids     map[string]string // the ids that the vector's letters stand for
	start   func() *httptest.Server
	server  *httptest.Server
	answers []reply               // the first answer to each call
	outputs map[string]string     // of executes, by tenant, saga and step
	effects func() map[string]int // by key
	// finish finishes the work of a call in a transaction, and sends the report if sent is true. It
	// returns the status.
	finish  func(key string, o conformance.Outcome, sent bool) int
	reports reports
	leave   sync.Map // functions that cut the connections of calls, by id
}

// reply is an answer as received.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r *runner) run() {
	r.server = r.start()
	defer func() { r.server.Close() }()
	r.reports.listen(r.t)
	for n := 0; n < len(r.v.Calls); {
		end := n + 1
		for word := r.v.Calls[n].Together; word != "" && end < len(r.v.Calls) && r.v.Calls[end].Together == word; {
			end++
		}
		if r.v.Calls[n].Restart {
			r.server.CloseClientConnections()
			r.server.Close()
			r.server = r.start()
		}
		r.play(n, end)
		n = end
	}
	r.count()
}

// play sends the calls from n to end at the same moment.
func (r *runner) play(n, end int) {
	got := make([][]reply, end-n)
	var all sync.WaitGroup
	for i, c := range r.v.Calls[n:end] {
		got[i] = make([]reply, c.AtOnce)
		for k := range got[i] {
			all.Go(func() {
				if c.Finish != nil {
					got[i][k] = r.end(c)
				} else {
					got[i][k] = r.send(c)
				}
			})
		}
	}
	all.Wait()
	for i, c := range r.v.Calls[n:end] {
		r.answers = append(r.answers, got[i][0])
		if c.Cut {
			continue
		}
		var good *reply
		for _, a := range got[i] {
			if !slices.ContainsFunc(c.Expect, func(want conformance.Answer) bool { return r.fits(a, want) }) {
				r.t.Errorf("call %d: %d %s; want one of %+v", n+i+1, a.status, a.body, c.Expect)
			}
			if a.status < 300 && good != nil && a.body != good.body {
				r.t.Errorf("call %d: answered %s and %s at once", n+i+1, a.body, good.body)
			}
			if a.status < 300 {
				good = &a
			}
		}
		if good != nil && good.status == http.StatusOK && c.Action == "execute" {
			r.outputs[c.Tenant+"/"+c.Saga+"/"+c.Step] = cmp.Or(good.body, "null")
		}
	}
}

func (r *runner) fits(a reply, want conformance.Answer) bool {
	if want.SameAs > 0 {
		first := r.answers[want.SameAs-1]
		return a.status == first.status && a.body == first.body
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal([]byte(a.body), &members)
	for name, value := range want.Body {
		if !bytes.Equal(members[name], value) {
			return false
		}
	}
	for name, value := range want.Headers {
		if a.header.Get(name) != value {
			return false
		}
	}
	return a.status == want.Status
}

// send sends one call, and repeats it while the participant asks for that.
func (r *runner) send(c conformance.Call) (got reply) {
	named := func(status int) bool {
		return slices.ContainsFunc(c.Expect, func(a conformance.Answer) bool { return a.Status == status })
	}
	patience.Until(r.t, "an answer other than 425", func() bool {
		ctx, cancel := context.WithCancel(r.t.Context())
		defer cancel()
		req := r.request(ctx, c)
		if c.Cut {
			id := uuid.NewString()
			req.Header.Set(cutHeader, id)
			r.leave.Store(id, cancel)
		}
		res, err := r.server.Client().Do(req)
		if err != nil {
			if !c.Cut {
				r.t.Error(err)
			}
			return true
		}
		defer func() { _ = res.Body.Close() }()
		body, _ := io.ReadAll(res.Body)
		got = reply{res.StatusCode, res.Header, string(body)}
		return c.Cut || named(got.status) || got.status != http.StatusTooEarly && got.status != http.StatusTooManyRequests
	})
	return got
}

// request builds a call as Skald does.
func (r *runner) request(ctx context.Context, c conformance.Call) *http.Request {
	saga, tenant := r.ids[c.Saga], cmp.Or(r.ids[c.Tenant], defaultTenant)
	body := c.Body
	if body == "" {
		body = r.body(c, saga)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.server.URL, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	key := r.real(c.Key())
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Idempotency-Key": encoded(key), "X-Saga-Id": saga, "X-Saga-Tenant": tenant,
		"X-Saga-Step": encoded(c.Step), "X-Saga-Action": c.Action, "X-Saga-Attempt": strconv.Itoa(c.Attempt),
		"X-Saga-Fence": strconv.Itoa(c.Fence), "X-Saga-Deadline": time.Now().Add(time.Minute).UTC().Format(time.RFC3339),
	} {
		req.Header.Set(name, value)
	}
	if c.Callback != "" {
		req.Header.Set("X-Saga-Callback", r.reports.url+"/"+c.Callback)
	}
	r.sign(req.Header, c, body)
	for name, value := range c.Headers {
		req.Header.Set(name, value)
	}
	for _, name := range c.Without {
		req.Header.Del(name)
	}
	return req
}

func (r *runner) body(c conformance.Call, saga string) string {
	b := fmt.Sprintf(`{"saga_id":%q,"workflow_name":"conformance","step":%q,"action":%q,"payload":%s,"outputs":{}`,
		saga, c.Step, c.Action, c.Payload)
	if c.Action == "compensate" {
		output := cmp.Or(r.outputs[c.Tenant+"/"+c.Saga+"/"+c.Step], "null")
		b += fmt.Sprintf(`,"input":%s,"output":%s`, c.Payload, output)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Members)) {
		b += fmt.Sprintf(`,%q:%s`, name, c.Members[name])
	}
	return b + "}"
}

func (r *runner) sign(h http.Header, c conformance.Call, body string) {
	if r.v.Secrets == nil || c.Sign == "none" {
		return
	}
	secret, at := r.v.Secrets[len(r.v.Secrets)-1], time.Now()
	switch c.Sign {
	case "wrong":
		secret = webhooks.FormatSecret(bytes.Repeat([]byte{7}, 32))
	case "changed":
		body += " "
	case "old":
		at = at.Add(-10 * time.Minute)
	case "ahead":
		at = at.Add(10 * time.Minute)
	}
	key, err := webhooks.ParseSecret(secret)
	if err != nil {
		r.t.Fatal(err)
	}
	h.Set(webhooks.CallHeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(webhooks.CallHeaderSignature, webhooks.Sign(key, h.Get("Idempotency-Key"), at, []byte(body)))
}

// real replaces the letters at the beginning of a key by ids.
func (r *runner) real(key string) string {
	parts := strings.Split(key, "/")
	for i, p := range parts[:len(parts)-2] {
		parts[i] = r.ids[p]
	}
	if len(parts) == 2 { // the key of a step
		parts[0] = r.ids[parts[0]]
	}
	return strings.Join(parts, "/")
}

func (r *runner) count() {
	r.reports.compare(r.t, r.v.Reports)
	got := r.effects()
	if r.v.Net != nil {
		for step, want := range r.v.Net {
			id := r.real(step)
			if net := got[encoded(id)+"/execute"] - got[encoded(id)+"/compensate"]; net != want {
				r.t.Errorf("%d effects of %s; want %d", net, step, want)
			}
		}
		return
	}
	want := map[string]int{}
	for key, n := range r.v.Effects {
		want[encoded(r.real(key))] = n
	}
	if !maps.Equal(got, want) {
		r.t.Errorf("effects %v; want %v", got, want)
	}
}

// encoded returns s as it appears in a header.
func encoded(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c > ' ' && c < 0x7f {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func newRunner(t *testing.T, v conformance.Vector) *runner {
	r := &runner{t: t, v: v, ids: map[string]string{}, outputs: map[string]string{}}
	for _, letter := range []string{"A", "B", "T", "U"} {
		r.ids[letter] = uuid.NewString()
	}
	return r
}
