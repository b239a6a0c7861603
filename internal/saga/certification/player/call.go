package player

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/webhooks"
	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/sdk/conformance"
)

// play is one run of a vector.
type play struct {
	*player
	certification.Played
	next   int               // the next call
	ids    map[string]string // ids for the letters of sagas and tenants
	bodies map[string][]byte // by key, so that repeated calls are equal byte for byte
	output map[string]json.RawMessage
	mu     sync.Mutex
}

// plain returns a vector with one ordinary call.
func (c *player) plain() conformance.Vector {
	return conformance.Vector{Name: "plain-call", Calls: []conformance.Call{{
		Saga: "A", Step: c.Step, Action: "execute", Run: 1, Attempt: 1, Fence: 1, AtOnce: 1,
		Payload: json.RawMessage(`{"amount":5}`), Expect: []conformance.Answer{{Status: http.StatusOK}},
	}}}
}

func (c *player) begin(v conformance.Vector) *play {
	p := &play{
		player: c, ids: map[string]string{}, bodies: map[string][]byte{}, output: map[string]json.RawMessage{},
	}
	p.Vector, p.Seen = v, make([]certification.Seen, len(v.Calls))
	for i, call := range v.Calls {
		if p.ids[call.Saga] == "" {
			p.ids[call.Saga] = uuid.NewString()
		}
		if p.ids[call.Tenant] == "" && call.Tenant != "" {
			p.ids[call.Tenant] = uuid.NewString()
		}
		p.Seen[i].Early = certification.Unknown
	}
	return p
}

func stepOf(call conformance.Call) string { return call.Tenant + "/" + call.Saga + "/" + call.Step }

// keyOf returns the Idempotency-Key of a call, with the ids of this run.
func (p *play) keyOf(call conformance.Call) string {
	call.Saga, call.Step = p.ids[call.Saga], escaped(call.Step)
	switch {
	case call.Tenant != "":
		call.Tenant = p.ids[call.Tenant]
	case p.Tenant != defaultTenant:
		call.Tenant = p.Tenant
	}
	return call.Key()
}

// counter returns the URL that counts effects, or "" if there is none.
func (p *play) counter() string { return p.Config.Effects }

func (p *play) urlOf(call conformance.Call) string {
	to := p.URL
	if call.Action == "compensate" {
		to = p.Compensation
	}
	return strings.ReplaceAll(to, "{step}", escaped(call.Step))
}

// Headers of a call, in the order in which they are shown.
func (p *play) headers(call conformance.Call) [][2]string {
	tenant := p.Tenant
	if call.Tenant != "" {
		tenant = p.ids[call.Tenant]
	}
	all := [][2]string{
		{"Content-Type", "application/json"},
		{"Idempotency-Key", p.keyOf(call)},
		{"X-Saga-Id", p.ids[call.Saga]},
		{"X-Saga-Step", escaped(call.Step)},
		{"X-Saga-Tenant", tenant},
		{"X-Saga-Action", call.Action},
		{"X-Saga-Attempt", strconv.Itoa(call.Attempt)},
		{"X-Saga-Fence", strconv.Itoa(call.Fence)},
		{marked, "1"},
	}
	for _, name := range slices.Sorted(maps.Keys(call.Headers)) {
		all = append(all, [2]string{name, call.Headers[name]})
	}
	return all
}

// body returns the body of a call. It is the same for every call with the same key.
func (p *play) body(call conformance.Call) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := call.Key()
	if p.bodies[key] != nil {
		return p.bodies[key]
	}
	payload := call.Payload
	if p.Payload != nil {
		payload = p.Payload
	}
	var b strings.Builder
	put := func(name string, value any) {
		text, err := json.Marshal(value)
		if err != nil { // it contains only parsed JSON and texts
			text = []byte("null")
		}
		fmt.Fprintf(&b, "%q:%s,", name, text)
	}
	put("saga_id", p.ids[call.Saga])
	put("workflow_name", "conformance")
	put("step", call.Step)
	put("action", call.Action)
	put("payload", payload)
	put("outputs", struct{}{})
	if call.Action == "compensate" {
		put("input", payload)
		put("output", p.output[stepOf(call)])
	}
	for _, name := range slices.Sorted(maps.Keys(call.Members)) {
		put(name, call.Members[name])
	}
	p.bodies[key] = []byte("{" + strings.TrimSuffix(b.String(), ",") + "}")
	return p.bodies[key]
}

func (p *play) request(ctx context.Context, call conformance.Call) (*http.Request, error) {
	body := p.body(call)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.urlOf(call), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range p.headers(call) {
		req.Header.Set(h[0], h[1])
	}
	now := time.Now()
	req.Header.Set("X-Saga-Deadline", now.Add(time.Minute).UTC().Format(time.RFC3339Nano))
	trace, span := strings.ReplaceAll(p.ids[call.Saga], "-", ""), strings.ReplaceAll(uuid.NewString(), "-", "")
	req.Header.Set("traceparent", "00-"+trace+"-"+span[:16]+"-01")
	if len(p.keys) > 0 {
		key, at := p.keyOf(call), strconv.FormatInt(now.Unix(), 10)
		var each []string
		for _, secret := range p.keys {
			each = append(each, webhooks.Sign(secret, key, now, body))
		}
		signature := strings.Join(each, " ")
		for name, value := range map[string]string{
			"X-Saga-Timestamp": at, "X-Saga-Signature": signature,
			"webhook-id": key, "webhook-timestamp": at, "webhook-signature": signature,
		} {
			req.Header.Set(name, value)
		}
	}
	return req, nil
}

// curl returns the commands that show a breach: the calls up to the one that reveals it.
func (p *play) curl(call int) (lines []string) {
	for i, c := range p.Vector.Calls[:call] {
		if c.Restart {
			lines = append(lines, "# restart the participant")
		}
		line := "curl -sS -X POST " + quoted(p.urlOf(c))
		for _, h := range p.headers(c) {
			line += " -H " + quoted(h[0]+": "+h[1])
		}
		if len(p.keys) > 0 {
			line += " -H 'X-Saga-Signature: …'" // it is only valid for five minutes
		}
		line += " -d " + quoted(string(p.body(c)))
		switch {
		case c.AtOnce > 1:
			line = fmt.Sprintf("for i in $(seq %d); do %s & done; wait", c.AtOnce, line)
		case c.Together != "" && i+1 < call:
			line += " &"
		case c.Cut:
			line += " --max-time 0.01"
		}
		lines = append(lines, line)
	}
	if p.counter() != "" {
		key := url.QueryEscape(p.keyOf(p.Vector.Calls[call-1]))
		joined := p.counter() + map[bool]string{true: "&", false: "?"}[strings.Contains(p.counter(), "?")] + "key=" + key
		lines = append(lines, "curl -sS "+quoted(joined))
	}
	return lines
}

// quoted quotes a word for the shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
