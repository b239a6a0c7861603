package chaos

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-saga/skald/internal/test/patience"
)

// ledgerLetters is the number of letters of a bulk redrive, by mode; the node dies ledgerKills
// times.
var ledgerLetters = map[string]int{"": 1500, "long": 10_000}

const ledgerKills = 5

// TestARedriveTellsExactlyWhatItHasSent kills the node five times with SIGKILL during a bulk
// redrive, and compares the redrive's counts and the attempts of its letters with what the target
// has received.
func TestARedriveTellsExactlyWhatItHasSent(t *testing.T) {
	t.Parallel()
	bin := binary(t, buildPlain)
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		m := newMail(t, bin)
		m.bulkUnderKills(map[string]any{"kind": "http", "url": m.target}, func() map[string]int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.sent
		})
	})
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		m := newMail(t, bin)
		broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, ordersTopic))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(broker.Close)
		m.extra = []string{"SKALD_KAFKA_BROKERS=" + strings.Join(broker.ListenAddrs(), ",")}
		m.bulkUnderKills(map[string]any{"kind": "kafka"}, func() map[string]int { return copies(t, broker) })
	})
}

// copies counts the records of ordersTopic by letter.
func copies(t *testing.T, broker *kfake.Cluster) map[string]int {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(broker.ListenAddrs()...),
		kgo.ConsumeTopics(ordersTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var written int64
	for partition := range int32(4) {
		if p := broker.PartitionInfo(ordersTopic, partition); p != nil {
			written += p.HighWatermark
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Limit)
	defer cancel()
	seen := map[string]int{}
	for n := int64(0); n < written; {
		fetched := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("read %d of %d records", n, written)
		}
		fetched.EachRecord(func(r *kgo.Record) {
			n++
			for _, h := range r.Headers {
				if h.Key == "x-dlq-message-id" {
					seen[string(h.Value)]++
				}
			}
		})
	}
	return seen
}

// bulkUnderKills redrives letters to a target while the node is killed repeatedly, and judges the
// counts. ledger returns how often the target has received each letter.
func (m *letterWorld) bulkUnderKills(target map[string]any, ledger func() map[string]int) {
	m.extra = append(m.extra, "SKALD_DLQ_AUTO_RETRY=false", "SKALD_DLQ_BATCH=200")
	p, letters := m.start(m.extra...), ledgerLetters[chaosMode(m.t)]
	ids := m.pushMany(letters, target)
	id, _ := m.call("/dlq/redrives", map[string]any{"action": "retry", "ids": ids, "rate_per_second": 10_000,
		"reason": "ledger"})["id"].(string)
	came := func() int { return m.ask(`SELECT done + failed + skipped FROM dlq.dlq_redrives WHERE id = $1`, id) }
	for kill := range ledgerKills {
		// The node is killed within a batch as well, not only where results are stored.
		m.await("the redrive to go on", func() bool {
			return came() >= kill*letters/(2*ledgerKills) &&
				m.ask(`SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING'`) > 0
		})
		time.Sleep(time.Duration(kill) * 3 * time.Millisecond)
		p.signal(syscall.SIGKILL)
		<-p.done
		p = m.start(m.extra...)
	}
	m.await("the redrive to be complete", func() bool {
		return m.ask(`SELECT count(*) FROM dlq.dlq_redrives WHERE id = $1 AND state = 'COMPLETED'`, id) == 1
	})
	m.judgeLedger(id, ids, ledger())
}

// judgeLedger compares the counts of a redrive with what its target has received: letters that were
// never handed over were not received, answered letters were received, and no letter was received
// more often than it was handed over.
func (m *letterWorld) judgeLedger(redrive string, ids []string, seen map[string]int) {
	told := map[string]int{}
	for _, name := range []string{"matched", "done", "failed", "skipped", "sent", "maybe_sent", "repeated"} {
		told[name] = m.ask(`SELECT `+name+` FROM dlq.dlq_redrives WHERE id = $1`, redrive)
	}
	handed := func(id, outcomes string) int {
		return m.ask(
			`SELECT count(*) FROM dlq.dlq_attempts WHERE message_id = $1 AND redrive_id = $2 AND outcome IN (`+outcomes+`)`,
			id,
			redrive,
		)
	}
	const certain, perhaps = `'ACKNOWLEDGED'`, `'ABANDONED', 'UNCERTAIN'`
	sent, maybe, again, twice, abandoned := 0, 0, 0, 0, 0
	for _, id := range ids {
		sure, unsure := handed(id, certain), handed(id, perhaps)
		switch {
		case sure > 0:
			sent++
		case unsure > 0:
			maybe++
		}
		if sure+unsure > 1 {
			again++
		}
		abandoned += unsure
		if n := seen[id]; n < sure || n > sure+unsure {
			m.t.Errorf(
				"letter %s was seen %d times; it was answered %d times, and handed over %d times more",
				id,
				n,
				sure,
				unsure,
			)
		}
		if seen[id] > 1 {
			twice++
		}
	}
	want := map[string]int{"sent": sent, "maybe_sent": maybe, "repeated": again, "matched": len(ids)}
	for name, n := range want {
		if told[name] != n {
			m.t.Errorf("the redrive tells %s %d; by the attempts of its letters it is %d", name, told[name], n)
		}
	}
	if len(seen) < sent || len(seen) > sent+maybe || twice > again ||
		told["done"]+told["failed"]+told["skipped"] != len(ids) {
		m.t.Errorf("the target has seen %d letters, %d of them again; told: %v", len(seen), twice, told)
	}
	if n := m.ask(`SELECT count(*) FROM dlq.dlq_messages m WHERE m.retry_count <> (SELECT count(*) FROM dlq.dlq_attempts a WHERE a.message_id = m.id AND a.outcome IN ('ABANDONED', 'UNCERTAIN'))`); n != 0 {
		m.t.Errorf("%d letters have used up retries in which nothing was sent", n)
	}
	withdrawn := m.ask(`SELECT count(*) FROM dlq.dlq_attempts WHERE outcome = 'WITHDRAWN'`)
	m.t.Logf(
		"letters=%d kills=%d told=%v seen=%d seen_again=%d handed_over_again=%d withdrawn=%d",
		len(ids),
		ledgerKills,
		told,
		len(seen),
		twice,
		abandoned,
		withdrawn,
	)
	if withdrawn+abandoned == 0 {
		m.t.Error("the run proves nothing: no kill met a letter that was claimed")
	}
}

// pushMany stores letters that are not retried automatically.
func (m *letterWorld) pushMany(n int, target map[string]any) (ids []string) {
	m.t.Helper()
	for len(ids) < n {
		var batch []map[string]any
		for range min(500, n-len(ids)) {
			batch = append(batch, map[string]any{
				"original_topic": ordersTopic,
				"error_message":  "no",
				"payload":        map[string]any{"n": 1},
				"max_retries":    20,
				"target":         target,
			})
		}
		results, _ := m.call("/dlq/messages/batch", map[string]any{"messages": batch})["results"].([]any)
		for _, r := range results {
			doc, _ := r.(map[string]any)
			ids = append(ids, fmt.Sprint(doc["id"]))
		}
	}
	return ids
}
