package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

// redriveState contains the fields of a redrive that are read.
type redriveState struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Matched int64  `json:"matched"`
	Done    int64  `json:"done"`
	Failed  int64  `json:"failed"`
	Skipped int64  `json:"skipped"`
}

// drive creates a redrive of the letters of a topic and waits until it is complete.
func (r *letterRun) drive(ctx context.Context, topic string, n int) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	begun := time.Now()
	raw, err := r.call(ctx, http.MethodPost, "/api/v1/dlq/redrives", map[string]any{
		"action":          "retry",
		"filter":          map[string]any{"topic": topic},
		"max_messages":    n,
		"rate_per_second": 1_000_000,
		"reason":          "measured",
	})
	var s redriveState
	for err == nil {
		if err = json.Unmarshal(raw, &s); err != nil || s.State == "COMPLETED" || s.State == "HALTED" {
			break
		}
		pause(ctx, 100*time.Millisecond)
		raw, err = r.call(ctx, http.MethodGet, "/api/v1/dlq/redrives/"+s.ID, nil)
	}
	took = time.Since(begun)
	if err != nil {
		return took, fmt.Errorf("redrive of %s: %w", topic, err)
	}
	written, err := r.topics.count(ctx, topic, deadPartitions)
	if err != nil {
		return took, err
	}
	if s.State != "COMPLETED" || s.Done != int64(n) || written != int64(n) {
		return took, fmt.Errorf("redrive of %s: got %+v and %d records in the topic, want %d", topic, s, written, n)
	}
	return took, nil
}

// redrive measures a bulk redrive from the request to its completion, including the collection
// of its letters.
func (r *letterRun) redrive(ctx context.Context) error {
	if r.cfg.Redriven == 0 {
		return nil
	}
	server, postgres := r.cpu()
	took, err := r.drive(ctx, liveTopic, r.cfg.Redriven)
	if err != nil {
		return err
	}
	s, p := r.cpu()
	rate := float64(r.cfg.Redriven) / took.Seconds()
	fmt.Fprintf(r.cfg.Out, "redrive: %d letters in %.1f s: %.0f/s (target %d); %s; each acknowledged, one record per letter\n",
		r.cfg.Redriven, took.Seconds(), rate, redriveTarget, used(s-server, p-postgres, took, int64(r.cfg.Redriven)))
	if rate < redriveTarget {
		r.missed = append(r.missed, fmt.Errorf("redrive: %.0f letters per second, want at least %d", rate, redriveTarget))
	}
	return nil
}

// large measures the memory that records of ten megabytes take: a server starts with a backlog
// of them, and then redrives them.
func (r *letterRun) large(ctx context.Context) error {
	if r.cfg.Large == 0 {
		return nil
	}
	if err := r.run.server.stop(); err != nil {
		return err
	}
	if err := r.topics.fillLarge(ctx, r.brokers, largeDead, largeLive, r.cfg.Large); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	if _, _, _, _, err := r.watch(ctx, int64(r.cfg.Large)); err != nil {
		return fmt.Errorf("ingest large records: %w", err)
	}
	ingest, err := r.peak()
	if err != nil {
		return err
	}
	var kept int64
	if err := r.db.pool.QueryRowContext(ctx, `SELECT coalesce(sum(length(payload_raw)), 0) FROM dlq.dlq_messages WHERE dlq_topic = $1`, largeDead).Scan(&kept); err != nil {
		return fmt.Errorf("count the letters: %w", err)
	}
	if kept != int64(r.cfg.Large)*10_000_000 {
		return fmt.Errorf("LOST OR DUPLICATED: %d bytes of %d large records are stored", kept, r.cfg.Large)
	}
	took, err := r.drive(ctx, largeLive, r.cfg.Large)
	if err != nil {
		return err
	}
	driven, err := r.peak()
	if err != nil {
		return err
	}
	fmt.Fprintf(
		r.cfg.Out,
		"large: %d records of 10 MB: the server's memory was at most %d MB during ingestion and %d MB during the redrive, which took %.1f s (target: %d MB); no byte was lost\n",
		r.cfg.Large,
		ingest>>20,
		driven>>20,
		took.Seconds(),
		largeTarget,
	)
	if max(ingest, driven)>>20 > largeTarget {
		r.missed = append(r.missed, fmt.Errorf("large: %d MB of memory, want at most %d", max(ingest, driven)>>20, largeTarget))
	}
	return nil
}

// peak returns the highest memory use of the server since the last call.
func (r *letterRun) peak() (int64, error) {
	m, err := hostProc.memory(r.run.server.pid())
	if err != nil {
		return 0, err
	}
	// If the peak cannot be reset, it counts twice, which errs on the safe side.
	_ = os.WriteFile(hostProc.path(strconv.Itoa(r.run.server.pid()), "clear_refs"), []byte("5"), 0)
	return m.peak, nil
}
