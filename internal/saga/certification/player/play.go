package player

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/sdk/conformance"
)

// pauseAt returns the first call that needs a restart before it.
func (p *play) pauseAt() int {
	for i, call := range p.Vector.Calls {
		if call.Restart {
			return i
		}
	}
	return len(p.Vector.Calls)
}

// until makes the calls up to, but not including, number end.
func (p *play) until(ctx context.Context, end int) error {
	for p.next < end {
		from := p.next
		for p.next++; p.next < end && p.Vector.Calls[from].Together != "" &&
			p.Vector.Calls[p.next].Together == p.Vector.Calls[from].Together; p.next++ {
		}
		var group sync.WaitGroup
		for i := from; i < p.next; i++ {
			call := p.Vector.Calls[i]
			p.Seen[i].Replies = make([]certification.Reply, call.AtOnce)
			if call.Cut {
				p.Seen[i].Replies = nil
				p.Stayed = !p.cut(ctx, call) || p.Stayed
				continue
			}
			for copied := range call.AtOnce {
				group.Go(func() { p.send(ctx, i, copied) })
			}
		}
		group.Wait()
		for i := from; i < p.next; i++ {
			if err := p.look(ctx, i); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// send makes one copy of call i, and repeats it as Skald would until there is a definite answer.
func (p *play) send(ctx context.Context, i, copied int) {
	var reply certification.Reply
	doubt := false
	for n, unknown := 0, 0; n < later && unknown < doubts; n++ {
		reply = p.once(ctx, p.Vector.Calls[i])
		if reply.Status != http.StatusTooEarly && reply.Status != http.StatusTooManyRequests {
			if reply.Status > 0 && reply.Status < 500 && reply.Status != http.StatusRequestTimeout {
				break
			}
			unknown, doubt = unknown+1, true
		}
		if !loop.Sleep(ctx, pause) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Seen[i].Replies[copied] = reply
	p.Seen[i].Doubt = p.Seen[i].Doubt || doubt
	if call := p.Vector.Calls[i]; call.Action == "execute" && reply.Status/100 == 2 && json.Valid([]byte(reply.Body)) {
		p.output[stepOf(call)] = json.RawMessage(reply.Body)
	}
}

// once makes one attempt of a call.
func (p *play) once(ctx context.Context, call conformance.Call) certification.Reply {
	req, err := p.request(ctx, call)
	if err != nil {
		return certification.Reply{Error: err.Error()}
	}
	return p.do(req)
}

// look counts the effects of a call as soon as it is answered.
func (p *play) look(ctx context.Context, i int) error {
	call := p.Vector.Calls[i]
	if p.counter() == "" || p.Vector.Effects[call.Key()] == 0 || len(p.Seen[i].Replies) == 0 {
		return nil
	}
	n, err := p.effectsOf(ctx, p.keyOf(call))
	p.Seen[i].Early = n
	return err
}

// count counts the effects of all keys, and waits a moment for them to become as expected.
func (p *play) count(ctx context.Context) error {
	if p.counter() == "" {
		return nil
	}
	counts := map[string]int{}
	for range settle {
		missing := false
		for _, call := range p.Vector.Calls {
			n, err := p.effectsOf(ctx, p.keyOf(call))
			if err != nil {
				return err
			}
			counts[call.Key()] = n
			missing = missing || n < p.Vector.Effects[call.Key()]
		}
		for of, want := range p.Vector.Net {
			missing = missing || counts[of+"/execute"]-counts[of+"/compensate"] != want
		}
		if !missing || !loop.Sleep(ctx, pause) {
			break
		}
	}
	p.Played.Effects = counts
	return nil
}
