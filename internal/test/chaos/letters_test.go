package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testdb"
)

// letterPlans are the plans for the dead-letter queue, with the total number of dead records.
var letterPlans = map[string]struct {
	plan
	records  int
	absences int           // outages of the broker
	outage   time.Duration // length of each broker outage, and of the database's outage at the end
}{
	"":     {plan{lease: time.Second, nodes: 2, kills: 6, cuts: 3, crashes: 1, gap: 1500 * time.Millisecond}, 3000, 2, 2 * time.Second},
	"long": {plan{lease: time.Second, nodes: 2, kills: 80, stops: 10, terms: 10, cuts: 20, crashes: 5, gap: 2 * time.Second}, 60_000, 12, 30 * time.Second},
}

// postEnv returns the configuration of nodes that ingest and redrive.
func postEnv(p *post) []string {
	return []string{
		"SKALD_KAFKA_BROKERS=" + strings.Join(p.broker.ListenAddrs(), ","),
		`SKALD_INGEST_TOPICS=^.*\.dlq$`,
		"SKALD_DLQ_AUTO_RETRY=false",
		"SKALD_DLQ_LEASE=3s",
		"SKALD_DLQ_POLL_INTERVAL=100ms",
		"SKALD_DLQ_MAX_RETRIES=50",
	}
}

// TestDeadLettersSurvive shows that no dead record is lost or invented, whichever process dies:
// nodes, the database or the broker.
func TestDeadLettersSurvive(t *testing.T) {
	t.Parallel()
	mode := chaosMode(t)
	lp := letterPlans[mode]
	w := newWorld(t, lp.plan, seed(t), binary(t, buildPlain))
	p := startPost(t, w)
	db, err := ownDatabase(t.Context(), w.dir)
	w.db = db
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	if err := w.heal(ctx); err != nil {
		t.Fatal(err)
	}
	dice := w.dice("records")
	given := make(chan error, 1)
	go func() {
		for range 20 {
			if err := p.giveUp(ctx, dice, lp.records/20); err != nil {
				given <- err
				return
			}
			pause(ctx, 100*time.Millisecond)
		}
		given <- nil
	}()
	var trouble sync.WaitGroup
	trouble.Go(func() { (&nemesis{w: w, dice: w.dice("nemesis")}).run(ctx) })
	trouble.Go(func() { p.leave(ctx, lp.absences, lp.outage) })
	first := p.redrive(ctx, t)
	trouble.Wait()
	if err := w.heal(ctx); err != nil {
		t.Error(err)
	}
	p.redrive(ctx, t)
	w.log.write("the database is away for %s", lp.outage)
	if err := db.shut(ctx, lp.outage); err != nil {
		t.Error(err)
	}
	if err := <-given; err != nil {
		t.Fatal(err)
	}
	if err := w.heal(ctx); err != nil {
		t.Error(err)
	}
	p.ingested(ctx, t)
	rounds := p.settle(ctx, t)
	p.archive(ctx, t)
	if err := p.judge(ctx); err != nil {
		t.Fatal(err)
	}
	p.complain()
	w.reportFindings()
	t.Logf(
		"letters: seed=%d kills=%d stops=%d pg_crashes=%d pg_cuts=%d broker_absences=%d records=%d came_back=%d redrives=%d violations=%d",
		w.seed,
		w.tally.kills.Load(),
		w.tally.stops.Load(),
		w.tally.crashes.Load(),
		w.tally.cuts.Load(),
		lp.absences,
		p.written(),
		len(p.seen),
		rounds+2,
		len(w.all()),
	)
	if first == "" || len(p.seen) < lp.records/2 {
		t.Errorf("the run proves nothing: %d letters came back", len(p.seen))
	}
}

// kafkaPoints are the points between Kafka and the database where a node dies.
// TestEveryPointOfALetterIsSurvived covers the other points of a letter's life.
var kafkaPoints = []failpoint.Name{
	failpoint.IngestAfterPoll, failpoint.IngestAfterInsert, failpoint.IngestBeforeCommit, failpoint.LetterAfterDrive,
	failpoint.LetterMidArchive,
}

// TestEveryFailpointOfDeadLettersIsSurvived kills a node between reading and
// storing, storing and committing, producing and finishing, and archiving.
func TestEveryFailpointOfDeadLettersIsSurvived(t *testing.T) {
	t.Parallel()
	bin := binary(t, buildFailpoints)
	for _, name := range kafkaPoints {
		t.Run(string(name), func(t *testing.T) { dieAtLetter(t, bin, name) })
	}
}

// dieAtLetter kills a node at a point of a letter's life, and checks that nothing is missing after
// its restart.
func dieAtLetter(t *testing.T, bin string, name failpoint.Name) {
	t.Parallel()
	w := newWorld(t, plan{lease: time.Second, nodes: 1}, seed(t), bin)
	p := startPost(t, w)
	w.db = &database{}
	if err := w.db.use(testdb.DSN(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience.Limit)
	defer cancel()
	n, hit := w.nodes[0], 1+w.dice("hit").IntN(2)
	work := func() {
		if err := p.giveUp(ctx, w.dice("records"), 300); err != nil {
			t.Fatal(err)
		}
		p.settle(ctx, t)
	}
	if name == failpoint.LetterMidArchive { // without built-in jobs, a node archives at startup
		n.env = append(n.env, "SKALD_JOBS_WORKER=false")
		if err := w.heal(ctx); err != nil {
			t.Fatal(err)
		}
		work()
		p.age(ctx, t)
		n.end(syscall.SIGKILL)
		hit = 1
	}
	died := n.startDoomed(t, fmt.Sprintf("%s=kill@%d", name, hit))
	work()
	isDead := func() bool {
		select {
		case <-died:
			return true
		default:
			return false
		}
	}
	for ctx.Err() == nil && !isDead() {
		work()
	}
	if !n.log.passed(string(name)) {
		t.Errorf("%s was never reached", name)
	}
	if err := w.heal(ctx); err != nil {
		t.Fatal(err)
	}
	p.settle(ctx, t)
	p.archive(ctx, t)
	if err := p.judge(ctx); err != nil {
		t.Fatal(err)
	}
	p.complain()
	w.reportFindings()
}

// complain adds the forbidden lines from the nodes' logs as violations.
func (p *post) complain() {
	for _, n := range p.w.nodes {
		for _, line := range n.log.complaints() {
			p.w.add("node", "", "", "%s: %s", n.name, line)
		}
	}
}

// age makes resolved letters old enough to be archived.
func (p *post) age(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := p.w.db.sql().ExecContext(ctx, `UPDATE dlq.dlq_messages SET terminal_at = terminal_at - interval '40 days' WHERE status = 'RESOLVED'`); err != nil {
		t.Fatal(err)
	}
}

func startPost(t *testing.T, w *world) *post {
	t.Helper()
	p, err := openPost(w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	w.env = postEnv(p)
	return p
}

// leave takes the broker down for a while, several times.
func (p *post) leave(ctx context.Context, times int, each time.Duration) {
	for range times {
		pause(ctx, 2*time.Second)
		p.w.log.write("the broker is away for %s", each)
		p.away.Store(true)
		pause(ctx, each)
		p.away.Store(false)
	}
}

// ingested waits until the database contains every record of the topic.
func (p *post) ingested(ctx context.Context, t *testing.T) {
	t.Helper()
	var n int
	defer func() {
		if n < p.written() {
			t.Logf("%d of %d records are in the database; the group: %+v", n, p.written(), p.broker.GroupInfo("skald-dlq"))
			_ = p.judge(ctx)
			p.w.reportFindings()
		}
	}()
	p.until(ctx, t, "every record is ingested", func() bool {
		err := p.w.db.sql().QueryRowContext(ctx, `
			SELECT (SELECT count(*) FROM dlq.dlq_messages) + (SELECT count(*) FROM dlq.dlq_messages_archive)`).Scan(&n)
		return err == nil && n >= p.written()
	})
}

func (p *post) until(ctx context.Context, t *testing.T, what string, done func() bool) {
	t.Helper()
	// The timeout is generous: a busy machine is slow after an outage, and only the result matters.
	ctx, cancel := context.WithTimeout(ctx, patience.Limit)
	defer cancel()
	for !done() {
		if !pause(ctx, 50*time.Millisecond) {
			t.Errorf("gave up waiting until %s", what)
			return
		}
	}
}

// settle runs redrives until no letter is open, and returns the number of rounds.
func (p *post) settle(ctx context.Context, t *testing.T) (rounds int) {
	t.Helper()
	for ; rounds < 8; rounds++ {
		p.ingested(ctx, t)
		p.until(
			ctx,
			t,
			"nothing is being retried",
			func() bool { n, err := p.open(ctx, "RETRYING"); return err == nil && n == 0 },
		)
		n, err := p.open(ctx, "PENDING")
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return rounds
		}
		id := p.redrive(ctx, t)
		var seen map[string]any
		p.until(ctx, t, "the redrive is through", func() bool {
			seen = p.call(ctx, http.MethodGet, "/api/v1/dlq/redrives/"+id, nil)
			return seen["state"] == "COMPLETED"
		})
		if seen["state"] != "COMPLETED" {
			t.Logf("the redrive: %v", seen)
		}
		p.counted(ctx, id)
	}
	t.Error("letters stay open after eight redrives")
	return rounds
}

// counted compares a redrive's counts with its items.
func (p *post) counted(ctx context.Context, id string) {
	var matched, done, failed, skipped, items, itemsDone, itemsFailed, itemsSkipped int
	err := p.w.db.sql().QueryRowContext(ctx, `
		SELECT r.matched, r.done, r.failed, r.skipped, count(i.seq), count(*) FILTER (WHERE i.state IN ('DONE', 'BOUNCED')),
		       count(*) FILTER (WHERE i.state = 'FAILED'), count(*) FILTER (WHERE i.state = 'SKIPPED')
		  FROM dlq.dlq_redrives r LEFT JOIN dlq.dlq_redrive_items i ON i.redrive_id = r.id WHERE r.id = $1 GROUP BY r.id`, id).
		Scan(&matched, &done, &failed, &skipped, &items, &itemsDone, &itemsFailed, &itemsSkipped)
	told := [4]int{matched, done, failed, skipped}
	kept := [4]int{items, itemsDone, itemsFailed, itemsSkipped}
	if err != nil || told != kept || matched != done+failed+skipped {
		p.w.add("progress", id, "", "matched, done, failed and skipped are %v, its items %v: %v", told, kept, err)
	}
}

func (p *post) open(ctx context.Context, status string) (n int, err error) {
	err = p.w.db.sql().QueryRowContext(ctx, `SELECT count(*) FROM dlq.dlq_messages WHERE status = $1`, status).Scan(&n)
	return n, err
}

// redrive starts a redrive of all open letters, and repeats the request until it is answered.
func (p *post) redrive(ctx context.Context, t *testing.T) (id string) {
	t.Helper()
	p.until(ctx, t, "a redrive is accepted", func() bool {
		id, _ = p.call(ctx, http.MethodPost, "/api/v1/dlq/redrives", map[string]any{
			"action":          "retry",
			"filter":          map[string]any{"status": []string{"PENDING"}},
			"rate_per_second": 5000,
			"reason":          "chaos",
		})["id"].(string)
		return id != ""
	})
	return id
}

// archive deletes five letters on request and archives the rest with several concurrent archivers.
func (p *post) archive(ctx context.Context, t *testing.T) {
	t.Helper()
	rows, err := p.rows(ctx)
	if err != nil {
		t.Fatal(err)
	}
	deleted := 0
	for _, r := range rows {
		if !r.archived && deleted < 5 {
			p.call(ctx, http.MethodDelete, "/api/v1/dlq/messages/"+r.id+"?reason=chaos", nil)
			deleted++
		}
	}
	var archivers sync.WaitGroup
	for range 3 {
		archivers.Go(func() {
			for moved := 1; moved > 0; {
				if err := p.w.db.sql().QueryRowContext(ctx, `SELECT dlq.archive_batch(0, 0, 97)`).Scan(&moved); err != nil {
					p.w.add("D4", "", "", "archive: %v", err)
					return
				}
			}
		})
	}
	archivers.Wait()
}

// call tries one node after another. It returns nil if none of them responded successfully.
func (p *post) call(ctx context.Context, method, path string, body any) map[string]any {
	for _, n := range p.w.nodes {
		var doc io.Reader
		if body != nil {
			text, err := json.Marshal(body)
			if err != nil {
				p.w.add("harness", "", "", "%v", err)
			}
			doc = bytes.NewReader(text)
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, n.url+path, doc)
		if err != nil {
			return nil
		}
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		res, err := p.w.http.Do(req)
		if err != nil {
			continue
		}
		answer, err := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode >= 400 && res.StatusCode < 500 {
			p.w.add("harness", "", "", "%s %s: %d %s", method, path, res.StatusCode, answer)
			return nil
		}
		var out map[string]any
		if err == nil && res.StatusCode < 300 && json.Unmarshal(answer, &out) == nil {
			return out
		}
	}
	return nil
}
