package kafka

import (
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// line contains the remaining records of a partition, in order.
type line struct{ records []read }

// work divides the records of a round among workers, batch by batch. A free worker takes records
// from the partitions with the most records left. While a worker stores records of a partition, no
// other worker takes records from it, so that its letters arrive in order.
type work struct {
	batch, bytes int // limits of one batch

	mu    sync.Mutex
	freed sync.Cond // signals returned lines and the end of the work
	idle  []*line   // lines that no worker is storing
	busy  int       // workers that may return lines
	ended bool
}

func newWork(records []read, batch, bytes int) *work {
	w := &work{batch: batch, bytes: bytes}
	w.freed.L = &w.mu
	lines := map[topicPartition]*line{}
	for _, r := range records {
		at := topicPartition{r.Topic, r.Partition}
		if lines[at] == nil {
			lines[at] = &line{}
			w.idle = append(w.idle, lines[at])
		}
		lines[at].records = append(lines[at].records, r)
	}
	return w
}

// take waits for a batch and returns it with its lines, which must be given back. It returns nil if
// no work is left.
func (w *work) take() (batch []read, of []*line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.ended && len(w.idle) == 0 && w.busy > 0 {
		w.freed.Wait()
	}
	if w.ended || len(w.idle) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(w.idle, func(a, b *line) int { return len(b.records) - len(a.records) })
	size := 0
	for len(w.idle) > 0 {
		l := w.idle[0]
		n := 0
		for ; n < len(l.records) && len(batch) < w.batch; n++ {
			next := SizeOf(l.records[n].Record)
			if len(batch) > 0 && size+next > w.bytes {
				break
			}
			batch, size = append(batch, l.records[n]), size+next
		}
		if n == 0 {
			break
		}
		clear(l.records[:n]) // to free memory: a record may be ten megabytes
		l.records, w.idle, of = l.records[n:], w.idle[1:], append(of, l)
	}
	w.busy++
	return batch, of
}

// giveBack returns lines after their batch has been stored.
func (w *work) giveBack(of []*line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	for _, l := range of {
		if len(l.records) > 0 {
			w.idle = append(w.idle, l)
		}
	}
	w.freed.Broadcast()
}

// end makes all workers stop.
func (w *work) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.freed.Broadcast()
}

func SizeOf(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
