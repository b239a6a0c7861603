package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
)

type (
	bigNumber = json.Number
	rawJSON   = json.RawMessage
)

func uuidFrom(r *rand.Rand) string {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(r.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.String()
}

// client is a user of the API.
type client struct {
	w    *world
	dice *rand.Rand
}

// reply is the result of a request. err is set if no complete response arrived; notSent then
// reports that the server certainly never saw the request.
type reply struct {
	status  int
	body    []byte
	header  http.Header
	err     error
	notSent bool
}

// code returns the problem's code, or "" if the response is not a problem document.
func (r reply) code() string {
	var p struct{ Code string }
	_ = json.Unmarshal(r.body, &p)
	return p.Code
}

func (r reply) sagaID() string {
	var s struct {
		SagaID string `json:"saga_id"`
	}
	_ = json.Unmarshal(r.body, &s)
	return s.SagaID
}

// impatience is how long a client waits for a response. A node that is stopped with SIGSTOP takes
// longer, and its response is then lost.
const impatience = 1500 * time.Millisecond

func (w *world) request(ctx context.Context, n *node, method, path, key string, body []byte) reply {
	ctx, cancel := context.WithTimeout(ctx, impatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.url+path, bytes.NewReader(body))
	if err != nil {
		return reply{err: err, notSent: true}
	}
	req.GetBody = nil // otherwise net/http would silently repeat the request
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := w.http.Do(req)
	if err != nil {
		return reply{err: err, notSent: errors.Is(err, syscall.ECONNREFUSED)}
	}
	defer res.Body.Close()
	out := reply{status: res.StatusCode, header: res.Header}
	if out.body, err = io.ReadAll(res.Body); err != nil {
		return reply{err: err}
	}
	if res.StatusCode >= 500 && res.StatusCode != http.StatusServiceUnavailable {
		w.add("O4", "", "", "%s answered %s %s with %d: %s", n.name, method, path, res.StatusCode, out.body)
	}
	return out
}

func (c *client) send(ctx context.Context, method, path, key string, body []byte) reply {
	return c.w.request(ctx, c.w.nodes[c.dice.IntN(len(c.w.nodes))], method, path, key, body)
}

// serve processes one order: it creates the saga, may read it and repeat the request, and cancels
// it if the order says so.
func (c *client) serve(ctx context.Context, o *order) {
	if c.create(ctx, o); o.id() == "" {
		return
	}
	if c.dice.IntN(3) == 0 {
		if r := c.send(ctx, http.MethodGet, "/api/v1/sagas/"+o.id(), "", nil); r.err == nil && r.status != http.StatusOK &&
			r.status != http.StatusServiceUnavailable {
			c.w.add("I0", o.id(), "", "reading it right after its 201 gives %d: %s", r.status, r.body)
		}
	}
	if o.key != "" && c.dice.IntN(5) == 0 {
		c.repeat(ctx, o)
	}
	if o.cancel && pause(ctx, time.Duration(c.dice.IntN(900))*time.Millisecond) {
		c.cancel(ctx, o)
	}
}

// create sends the order to random nodes until the outcome is known; after an unknown outcome it
// sometimes gives up.
func (c *client) create(ctx context.Context, o *order) {
	if o.key != "" && c.dice.IntN(8) == 0 && c.twice(ctx, o) {
		return
	}
	for {
		r := c.send(ctx, http.MethodPost, "/api/v1/sagas", o.key, o.body)
		switch {
		case r.status == http.StatusCreated:
			o.accepted = append(o.accepted, r.sagaID())
			return
		case r.code() == "SAGA_ALREADY_EXISTS" && o.givenID != "" && o.unknown:
			o.accepted = append(o.accepted, o.givenID) // one of our earlier attempts was accepted
			return
		case r.code() == "REQ_IDEMPOTENCY_KEY_IN_USE", r.notSent:
		case r.err != nil, r.status == http.StatusServiceUnavailable:
			o.unknown = true
			if o.key == "" && o.givenID == "" || c.dice.IntN(20) == 0 {
				return
			}
		default:
			c.w.add("API", "", "", "creating %s was answered %d: %s", o.marker, r.status, r.body)
			return
		}
		if !pause(ctx, time.Duration(20+c.dice.IntN(100))*time.Millisecond) {
			return
		}
	}
}

// twice sends the same create request to all nodes at once, like an impatient client behind a load
// balancer. It reports whether at least one node accepted it.
func (c *client) twice(ctx context.Context, o *order) bool {
	replies := make([]reply, len(c.w.nodes))
	var sent sync.WaitGroup
	for i, n := range c.w.nodes {
		sent.Go(func() { replies[i] = c.w.request(ctx, n, http.MethodPost, "/api/v1/sagas", o.key, o.body) })
	}
	sent.Wait()
	for _, r := range replies {
		switch {
		case r.status == http.StatusCreated:
			o.accepted = append(o.accepted, r.sagaID())
		case r.code() == "REQ_IDEMPOTENCY_KEY_IN_USE", r.notSent:
		case r.err != nil, r.status == http.StatusServiceUnavailable:
			o.unknown = true
		default:
			c.w.add("I11", "", "", "creating %s twice at once was answered %d: %s", o.marker, r.status, r.body)
		}
	}
	return len(o.accepted) > 0
}

// repeat sends an accepted create request again, and then a different request with the same key
// (I11).
func (c *client) repeat(ctx context.Context, o *order) {
	same := c.send(ctx, http.MethodPost, "/api/v1/sagas", o.key, o.body)
	switch {
	case same.err != nil, same.status == http.StatusServiceUnavailable, same.code() == "REQ_IDEMPOTENCY_KEY_IN_USE":
	case same.status == http.StatusCreated:
		o.accepted = append(o.accepted, same.sagaID())
		c.w.tally.replays.Add(1)
	default:
		c.w.add("I11", o.id(), "", "the same create again was answered %d: %s", same.status, same.body)
	}
	other := c.send(
		ctx,
		http.MethodPost,
		"/api/v1/sagas",
		o.key,
		encode(map[string]any{"workflow_name": o.flow.name, "payload": "another"}),
	)
	switch {
	case other.err != nil, other.status == http.StatusServiceUnavailable, other.code() == "REQ_IDEMPOTENCY_KEY_IN_USE":
	case other.status != http.StatusUnprocessableEntity:
		c.w.add("I11", o.id(), "", "another create under its key was answered %d: %s", other.status, other.body)
	}
}

// cancel repeats the request until the answer is definite: accepted, or too late.
func (c *client) cancel(ctx context.Context, o *order) {
	body := encode(map[string]any{"reason": "chaos"})
	for {
		r := c.send(ctx, http.MethodPost, "/api/v1/sagas/"+o.id()+"/cancel", "cancel-"+o.marker, body)
		o.cancelSent = o.cancelSent || !r.notSent
		switch {
		case r.status == http.StatusAccepted:
			o.cancelAccepted = true
			return
		case r.code() == "SAGA_STATE_CONFLICT":
			return
		case r.err != nil, r.status == http.StatusServiceUnavailable,
			r.code() == "REQ_IDEMPOTENCY_KEY_IN_USE", r.code() == "REQ_KEEPS_CHANGING":
		default:
			c.w.add("API", o.id(), "", "cancel was answered %d: %s", r.status, r.body)
			return
		}
		if !pause(ctx, time.Duration(20+c.dice.IntN(100))*time.Millisecond) {
			return
		}
	}
}

// register registers all flows at any node that responds.
func (c *client) register(ctx context.Context) bool {
	for _, f := range c.w.flows {
		for {
			r := c.send(ctx, http.MethodPost, "/api/v1/workflows", "", f.definition)
			if r.status == http.StatusCreated || r.status == http.StatusOK {
				break
			}
			if r.err == nil && r.status != http.StatusServiceUnavailable {
				c.w.add("API", "", "", "registering %s was answered %d: %s", f.name, r.status, r.body)
				return false
			}
			if !pause(ctx, 20*time.Millisecond) {
				return false
			}
		}
	}
	return true
}

// agreed reports whether all responses to a create request name the same saga.
func (o *order) agreed() bool {
	return !slices.ContainsFunc(o.accepted, func(id string) bool { return id != o.accepted[0] })
}
