package measure

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"time"
)

// ReadConfig describes a measurement of reads at scale.
type ReadConfig struct {
	// Skald is the path of the server binary. Required.
	Skald string
	// Data describes what is generated first, and in which database; with Sagas 0 the database
	// already has generated data.
	Data GenerateConfig
	// Dir is an existing directory for the server's log. Required.
	Dir string
	// Samples is how often each query is sent, at least 20.
	Samples int
	// Depth is how many rows precede a deep cursor, if there are as many.
	Depth int
	// ServerEnv are settings of the server, KEY=VALUE.
	ServerEnv []string
	// Out receives the table row by row.
	Out io.Writer
}

// Read measures every list, filter and lookup of a server on a large database, and prints them
// to cfg.Out. An error means that a target was missed, or that a response was an error.
func Read(ctx context.Context, cfg ReadConfig) error {
	generate := func() error {
		if cfg.Data.Sagas <= 0 {
			return nil
		}
		data := cfg.Data
		data.Out = cfg.Out
		return Generate(ctx, data)
	}
	return ask(ctx, cfg, generate, (*reader).measure)
}

// ask prepares the data, starts a server on it and calls measure.
func ask(
	ctx context.Context,
	cfg ReadConfig,
	generate func() error,
	measure func(*reader, context.Context) error,
) (err error) {
	if cfg.Samples < 20 || cfg.Depth < 1 {
		return errors.New("samples must be at least 20 and depth at least 1")
	}
	if cfg.Skald, err = filepath.Abs(cfg.Skald); err != nil {
		return fmt.Errorf("resolve the path of the server: %w", err)
	}
	if err := generate(); err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	db, err := openDescribed(ctx, cfg.Data.DatabaseURL, cfg.Skald, cfg.Out)
	if err != nil {
		return err
	}
	defer db.close()
	// The server is started as in a complete run, but archives nothing: most of what was generated has expired.
	server := &run{cfg: Config{
		Skald: cfg.Skald, DatabaseURL: cfg.Data.DatabaseURL, Dir: cfg.Dir, Out: cfg.Out,
		ServerEnv: append([]string{"SKALD_RETENTION_INTERVAL=0"}, cfg.ServerEnv...),
	}}
	var ready Millis
	if err := server.measureStart(ctx, &ready); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stopChildren()) }()
	r := &reader{
		ReadConfig: cfg,
		db:         db.pool,
		url:        server.serverURL,
		client:     &http.Client{Timeout: time.Minute},
		now:        time.Now,
		server:     server.server.cmd.Process.Pid,
		postmaster: db.postmaster,
	}
	return measure(r, ctx)
}

// reader sends one query after another.
type reader struct {
	ReadConfig
	db     *sql.DB
	url    string
	client *http.Client
	now    func() time.Time

	server, postmaster int // processes

	asked, missed int
}

func (r *reader) measure(ctx context.Context) error {
	known, err := r.know(ctx)
	if err != nil {
		return err
	}
	var sagas, logs int64
	if err := r.db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM saga.saga_states), (SELECT count(*) FROM saga.saga_step_logs)`).Scan(&sagas, &logs); err != nil {
		return fmt.Errorf("count the data: %w", err)
	}
	fmt.Fprintf(
		r.Out,
		"%d sagas, %d step logs. One client; times in ms; deep: after %d rows, or the last page. Target p95 %g, statistics %g.\n\n",
		sagas,
		logs,
		r.Depth,
		readLimit,
		statisticsLimit,
	)
	fmt.Fprintf(r.Out, "%-62s %8s %8s %8s %8s %8s\n", "", "p50", "p95", "deep p50", "deep p95", "rows in")
	for _, q := range singles(known) {
		if err := r.list(ctx, q); err != nil {
			return err
		}
	}
	fmt.Fprintln(r.Out, "\nany two of these together")
	for _, q := range pairs(known) {
		if err := r.list(ctx, q); err != nil {
			return err
		}
	}
	fmt.Fprintln(r.Out, "\nlookups and statistics")
	for _, q := range lookups(known) {
		if err := r.lookup(ctx, q); err != nil {
			return err
		}
	}
	fmt.Fprintln(r.Out, "\nby SQL")
	for _, q := range queries(known) {
		if err := r.query(ctx, q); err != nil {
			return err
		}
	}
	return r.verdict()
}

// verdict prints how many queries missed their target; an error if any did.
func (r *reader) verdict() error {
	fmt.Fprintf(r.Out, "\nqueries: %d; missed their target: %d\n", r.asked, r.missed)
	if r.missed > 0 {
		return fmt.Errorf("%d of %d queries missed their target", r.missed, r.asked)
	}
	return nil
}

// list measures the first page of a list and one at a deep cursor.
func (r *reader) list(ctx context.Context, q question) error {
	first, err := r.time(ctx, q, func(i int) error { return r.get(ctx, q.path(i), nil) })
	if err != nil {
		return err
	}
	cursors, depth, err := r.walk(ctx, q.path(0))
	if err != nil {
		return err
	}
	var deep Latency
	if len(cursors) > 0 {
		if deep, err = r.time(ctx, q, func(i int) error {
			return r.get(ctx, with(q.path(0), "cursor", cursors[i%len(cursors)]), nil)
		}); err != nil {
			return err
		}
	}
	r.row(q, first, deep, depth)
	return nil
}

func (r *reader) lookup(ctx context.Context, q question) error {
	taken, err := r.time(ctx, q, func(i int) error { return r.get(ctx, q.path(i), nil) })
	if err == nil {
		r.row(q, taken, Latency{}, 0)
	}
	return err
}

func (r *reader) query(ctx context.Context, q question) error {
	taken, err := r.time(ctx, q, func(i int) error {
		rows, err := r.db.QueryContext(ctx, q.path(i))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
		}
		return rows.Err()
	})
	if err == nil {
		r.row(q, taken, Latency{}, 0)
	}
	return err
}

// time sends a query cfg.Samples times.
func (r *reader) time(ctx context.Context, q question, ask func(i int) error) (Latency, error) {
	samples := make([]time.Duration, r.Samples)
	for i := range samples {
		begun := r.now()
		if err := ask(i); err != nil {
			return Latency{}, fmt.Errorf("%s: %w", q.name, err)
		}
		samples[i] = r.now().Sub(begun)
		if ctx.Err() != nil {
			return Latency{}, ctx.Err()
		}
	}
	return summarize(samples), nil
}

// walk reads a list in large pages up to cfg.Depth rows, and returns the last few cursors and
// the depth of the last one.
func (r *reader) walk(ctx context.Context, path string) (cursors []string, depth int, err error) {
	const keep = 8
	path = with(path, "page_size", fmt.Sprint(walkSize))
	next := path
	for depth < r.Depth {
		var page struct {
			Pagination struct {
				NextCursor string `json:"next_cursor"`
			} `json:"pagination"`
		}
		if err := r.get(ctx, next, &page); err != nil {
			return nil, 0, err
		}
		if page.Pagination.NextCursor == "" {
			break
		}
		depth += walkSize
		cursors = append(cursors, page.Pagination.NextCursor)
		next = with(path, "cursor", page.Pagination.NextCursor)
	}
	return cursors[max(0, len(cursors)-keep):], depth, nil
}

// get sends a request to the server; any response but 200 is an error.
func (r *reader) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		return err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("GET %s: status %d: %.300s", path, response.StatusCode, body)
	case into == nil:
		return nil
	}
	return json.Unmarshal(body, into)
}

// with returns path with a query parameter set.
func with(path, name, value string) string {
	u, err := url.Parse(path)
	if err != nil {
		panic(err) // our own path
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func (r *reader) row(q question, first, deep Latency, depth int) {
	verdict := ""
	r.asked++
	if q.limit > 0 && max(first.P95, deep.P95) > q.limit {
		verdict = "  MISSED"
		r.missed++
	}
	deeply := []string{"-", "-", "-"}
	if deep.Count > 0 {
		deeply = []string{shortTime(deep.P50), shortTime(deep.P95), fmt.Sprint(depth)}
	}
	fmt.Fprintf(
		r.Out,
		"%-62s %8s %8s %8s %8s %8s%s\n",
		q.name,
		shortTime(first.P50),
		shortTime(first.P95),
		deeply[0],
		deeply[1],
		deeply[2],
		verdict,
	)
}
