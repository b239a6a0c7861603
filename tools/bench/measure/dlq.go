package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// DLQConfig describes a measurement of the dead-letter queue.
type DLQConfig struct {
	Skald       string // path of the server binary
	Self        string // path of this program, which also runs the broker
	DatabaseURL string // of a durable database
	Dir         string // an existing directory for the server's log
	// Brokers are those of an existing Kafka; nil: a fake one in its own process.
	Brokers   []string
	Records   int // small records to ingest
	Redriven  int // letters to redrive, at most Records
	Large     int // records of 10 MB; 0: none
	ServerEnv []string
	Out       io.Writer
}

// The targets, on two cores.
const (
	ingestTarget  = 20_000 // small records a second, from Kafka to rows
	redriveTarget = 5_000  // letters a second, to a local broker
	largeTarget   = 600    // MB of memory with records of 10 MB
)

const (
	deadPartitions = 8
	deadTopic      = "bench.orders.dlq"
	liveTopic      = "bench.orders"
	largeDead      = "bench.large.dlq"
	largeLive      = "bench.large"
	phaseTimeout   = 10 * time.Minute
)

// DLQ measures ingestion from Kafka, a bulk redrive to it, and the memory that large records
// take, and prints them to cfg.Out. Every record is counted at both ends. An error means that a
// target was missed or a record is missing.
func DLQ(ctx context.Context, cfg DLQConfig) (err error) {
	if cfg.Records < 1 || cfg.Redriven < 0 || cfg.Redriven > cfg.Records || cfg.Large < 0 {
		return errors.New("records must be at least 1, redriven must be from 0 to records, and large must not be negative")
	}
	if cfg.Skald, err = filepath.Abs(cfg.Skald); err != nil {
		return fmt.Errorf("resolve the path of the server: %w", err)
	}
	db, err := openDescribed(ctx, cfg.DatabaseURL, cfg.Skald, cfg.Out)
	if err != nil {
		return err
	}
	defer db.close()
	r := &letterRun{cfg: cfg, db: db}
	defer func() { err = errors.Join(err, r.stop()) }()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	for _, phase := range []func(context.Context) error{r.ingest, r.redrive, r.large} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return errors.Join(r.missed...)
}

// letterRun is one run of the measurement.
type letterRun struct {
	cfg     DLQConfig
	db      *database
	brokers []string
	broker  *child // nil for an existing broker
	topics  *topics
	run     *run // the server
	missed  []error
}

// prepare starts the broker and fills it.
func (r *letterRun) prepare(ctx context.Context) (err error) {
	if r.brokers = r.cfg.Brokers; r.brokers == nil {
		var addr string
		if r.broker, addr, err = startAnnounced(ctx, "broker", r.cfg.Self, "broker"); err != nil {
			return err
		}
		r.brokers = strings.Split(addr, ",")
	}
	if r.topics, err = openTopics(r.brokers); err != nil {
		return err
	}
	for _, topic := range []string{deadTopic, liveTopic, largeDead, largeLive} {
		if err := r.topics.create(ctx, topic, deadPartitions); err != nil {
			return err
		}
	}
	return r.topics.fill(ctx, deadTopic, liveTopic, r.cfg.Records)
}

// start starts the server, which begins to ingest.
func (r *letterRun) start(ctx context.Context) error {
	r.run = &run{
		cfg: Config{
			Skald:       r.cfg.Skald,
			DatabaseURL: r.cfg.DatabaseURL,
			Dir:         r.cfg.Dir,
			Out:         r.cfg.Out,
			ServerEnv: append([]string{
				"SKALD_KAFKA_BROKERS=" + strings.Join(r.brokers, ","), "SKALD_INGEST_TOPICS=^bench[.].*[.]dlq$",
				// Jitter would make some letters due during the redrive, which then skips them.
				"SKALD_DLQ_AUTO_RETRY=false", "SKALD_DLQ_MAX_REDRIVE_RATE=1000000",
			}, r.cfg.ServerEnv...),
		},
	}
	var ready Millis
	return r.run.measureStart(ctx, &ready)
}

func (r *letterRun) stop() error {
	var errs []error
	if r.run != nil {
		errs = append(errs, r.run.stopChildren())
	}
	if r.topics != nil {
		r.topics.client.Close()
	}
	if r.broker != nil {
		errs = append(errs, r.broker.stop())
	}
	return errors.Join(errs...)
}

// ingest measures from the first letter stored to the last.
func (r *letterRun) ingest(ctx context.Context) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	first, begun, ended, cpu, err := r.watch(ctx, int64(r.cfg.Records))
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	rate := float64(int64(r.cfg.Records)-first) / ended.Sub(begun).Seconds()
	var rows, places int
	if err := r.db.pool.QueryRowContext(ctx, `SELECT count(*), count(DISTINCT (dlq_partition, dlq_offset)) FROM dlq.dlq_messages WHERE dlq_topic = $1`, deadTopic).Scan(&rows, &places); err != nil {
		return fmt.Errorf("count the letters: %w", err)
	}
	if rows != r.cfg.Records || places != r.cfg.Records {
		return fmt.Errorf("LOST OR DUPLICATED: %d rows with %d distinct positions for %d records",
			rows, places, r.cfg.Records)
	}
	fmt.Fprintf(
		r.cfg.Out,
		"ingest: %d records of about 200 bytes with 6 headers in %.1f s: %.0f/s (target %d); %s; one row per record\n",
		r.cfg.Records,
		ended.Sub(begun).Seconds(),
		rate,
		ingestTarget,
		cpu,
	)
	if rate < ingestTarget {
		r.missed = append(r.missed, fmt.Errorf("ingest: %.0f records per second, want at least %d", rate, ingestTarget))
	}
	return nil
}

// watch waits until the server has stored n letters since it started. It returns how many there
// were at the first poll that found any, and when that was.
func (r *letterRun) watch(ctx context.Context, n int64) (first int64, begun, ended time.Time, cpu string, err error) {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	var server, postgres time.Duration
	for {
		stored, err := r.stored(ctx)
		if err == nil {
			err = r.run.server.ended()
		}
		switch {
		case ctx.Err() != nil:
			return 0, begun, ended, "", fmt.Errorf("%[2]d of %[1]d letters were stored: %[3]w", n, stored, ctx.Err())
		case err != nil:
			return 0, begun, ended, "", err
		case stored > 0 && begun.IsZero():
			first, begun = stored, time.Now()
			server, postgres = r.cpu()
		}
		if stored >= n {
			ended = time.Now()
			s, p := r.cpu()
			return first, begun, ended, used(s-server, p-postgres, ended.Sub(begun), n-first), nil
		}
		pause(ctx, metricsPoll)
	}
}

// metricsPoll is how often the server's metrics are read: rarely, because each read costs some
// CPU.
const metricsPoll = 200 * time.Millisecond

// used describes the CPU that server and database have used for n letters, which says more than
// the rate when the machine is busy with other work.
func used(server, postgres, wall time.Duration, n int64) string {
	each := func(cpu time.Duration) float64 { return float64(cpu.Microseconds()) / float64(max(n, 1)) }
	return fmt.Sprintf("server %.2f cores (%.0f µs each), PostgreSQL %.2f (%.0f µs each)",
		server.Seconds()/wall.Seconds(), each(server), postgres.Seconds()/wall.Seconds(), each(postgres))
}

// cpu is the CPU time that the server and the database have used; zero where it cannot be read.
func (r *letterRun) cpu() (server, postgres time.Duration) { return cpuOf(r.run.server, r.db) }

func cpuOf(c *child, db *database) (server, postgres time.Duration) {
	if p, err := hostProc.process(c.pid()); err == nil {
		server = p.cpu
	}
	if db.postmaster != 0 {
		postgres, _ = hostProc.familyCPU(db.postmaster)
	}
	return server, postgres
}

// stored returns how many letters the server has stored since it started.
func (r *letterRun) stored(ctx context.Context) (int64, error) {
	body, err := r.call(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	const name = "skald_dlq_ingest_letters_total "
	for line := range strings.Lines(string(body)) {
		if text, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			return int64(n), err
		}
	}
	return 0, fmt.Errorf("the metric %s is missing", name)
}

// call makes a request to the server and returns the body of a successful response.
func (r *letterRun) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	return request(ctx, http.DefaultClient, method, r.run.serverURL+path, body)
}

func request(ctx context.Context, client *http.Client, method, url string, body any) ([]byte, error) {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, sent)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, url, res.Status, raw)
	}
	return raw, err
}
