// Package measure measures Skald as its users meet it: the real server binary, a
// durable PostgreSQL, participants and a load generator, each in a process of
// its own on one machine, so that CPU time can be told apart by process.
//
// A run never trusts a fast answer: after every level it looks each accepted
// saga up in the database and fails when one is missing, did not end as its
// workflow must, or has no log of the steps it should have made. It reads
// process figures from /proc and therefore needs Linux.
//
// Files, each on top of those before it: procfs, workflow, database, latency, report, child,
// table, level, bench, generate_sql, generate, dlq_kafka, load, servers, dlq, jobs, recorder,
// peers_level, read_cases, letters_generate, peers_turn, peers_skald, peers_dtm, read, ui_fill, growth,
// jobs_worker, jobs_phases, letters_read, peers_jobs, peers_restate, peers_table, peers_rounds, dlq_phases,
// migrate, participant, peers, scaling, soak, ui, ui_open, xmin.
package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Config describes a run.
type Config struct {
	// Skald is the path of the server binary. Required.
	Skald string
	// ServerEnv contains KEY=VALUE pairs added to the server's environment; they override what
	// the run sets.
	ServerEnv []string
	// DatabaseURL names a database the run may write to: the server migrates it,
	// and the sagas of the run stay in it. Required.
	DatabaseURL string
	// Dir is an existing directory for logs. Required.
	Dir string
	// Self is the program with the commands "participant" and "load", normally the running
	// executable. Required.
	Self string
	// Clients and Modes define the levels of the successful workflow.
	Clients []int
	Modes   []Mode
	// Compensated is the number of clients for the workflow whose last step is refused, Mixed that for
	// the one to which this happens every third time; 0 skips them.
	Compensated, Mixed int
	// Ahead means that no step waits for the disk (checkpoint: false).
	Ahead bool
	// Payload is the size of a saga's payload in bytes; 0: about 100.
	Payload int
	// Duration is how long the clients of one level submit, Warmup how long they submit before
	// counting starts (0: no warm-up).
	Duration, Warmup time.Duration
	// Drain is how long the sagas accepted in one level may take to end after the last one was
	// accepted; the others then count as lost.
	Drain time.Duration
	// Out receives the table row by row.
	Out io.Writer
}

// Run makes one complete run and prints it to cfg.Out. The report contains everything that was
// measured, even after an error. An error means that the figures are invalid: something could
// not be started, or a saga was lost.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	// The server is started in another directory, where a relative path would mean another
	// file.
	binary, err := filepath.Abs(cfg.Skald)
	if err != nil {
		return nil, fmt.Errorf("resolve the path of the server: %w", err)
	}
	cfg.Skald = binary
	report := &Report{StartedAt: time.Now().UTC()}
	db, err := openDatabase(ctx, cfg.DatabaseURL)
	if err != nil {
		return report, err
	}
	defer db.close()
	if report.Machine, err = describeMachine(cfg.Skald, db); err != nil {
		return report, err
	}
	printMachine(cfg.Out, report.Machine)

	r := &run{cfg: cfg, db: db, report: report}
	err = errors.Join(r.measure(ctx), r.stopChildren())
	report.Targets = judge(report)
	printSummary(cfg.Out, report)
	printServerLog(cfg.Out, r.serverLog())
	return report, err
}

// run holds the processes of one run.
type run struct {
	cfg    Config
	db     *database
	report *Report

	participant     *child
	participantAddr string
	server          *child
	serverURL       string
}

// measure does everything between the checks and the summary.
func (r *run) measure(ctx context.Context) error {
	if err := r.startParticipant(ctx); err != nil {
		return err
	}
	if err := r.measureStart(ctx, &r.report.Ready.EmptyDatabase); err != nil {
		return err
	}
	// After a restart the schema exists: this is the start that operators usually see.
	if err := r.restartServer(ctx, &r.report.Ready.ExistingDatabase); err != nil {
		return err
	}
	for _, flow := range r.workflows() {
		if err := registerWorkflow(ctx, r.serverURL, flow); err != nil {
			return err
		}
	}
	printTableHead(r.cfg.Out)
	for _, spec := range r.levels() {
		level, err := r.runLevel(ctx, spec)
		if err != nil {
			err = fmt.Errorf("%s, %s, %d clients: %w", spec.flow.name, spec.mode, spec.clients, err)
			return errors.Join(err, r.server.endedWithin(time.Second))
		}
		r.report.Levels = append(r.report.Levels, level)
		printRow(r.cfg.Out, level)
	}
	return r.restartServer(ctx, &r.report.Ready.AfterLoad)
}

// levels lists the levels to measure, in order.
func (r *run) levels() []levelSpec {
	var specs []levelSpec
	flows := r.workflows()
	for _, mode := range r.cfg.Modes {
		for _, clients := range r.cfg.Clients {
			specs = append(specs, levelSpec{flows[0], mode, clients, r.cfg.Payload})
		}
	}
	if r.cfg.Compensated > 0 {
		for _, mode := range r.cfg.Modes {
			specs = append(specs, levelSpec{flows[1], mode, r.cfg.Compensated, r.cfg.Payload})
		}
	}
	if r.cfg.Mixed > 0 {
		for _, mode := range r.cfg.Modes {
			specs = append(specs, levelSpec{flows[2], mode, r.cfg.Mixed, r.cfg.Payload})
		}
	}
	return specs
}

// workflows returns those that are measured.
func (r *run) workflows() [3]workflow {
	flows := workflows(r.participantAddr)
	if r.cfg.Ahead {
		for i := range flows {
			flows[i].goAhead()
		}
	}
	return flows
}

// restartServer stops the server and starts it again, and sets ready to how long it took to
// become ready.
func (r *run) restartServer(ctx context.Context, ready *Millis) error {
	if err := r.server.stop(); err != nil {
		return err
	}
	return r.measureStart(ctx, ready)
}

// stopChildren ends every process of the run, the server first because it
// still calls the participant while it drains.
func (r *run) stopChildren() error {
	var errs []error
	for _, c := range []*child{r.server, r.participant} {
		if c != nil {
			errs = append(errs, c.stop())
		}
	}
	return errors.Join(errs...)
}

func (r *run) serverLog() string { return filepath.Join(r.cfg.Dir, "skald.log") }

// Validate reports all mistakes in the figures of a Config.
func (c Config) Validate() error {
	var errs []error
	if len(c.Clients) == 0 && c.Compensated == 0 && c.Mixed == 0 {
		errs = append(errs, errors.New("no level to measure: set clients, compensated or mixed"))
	}
	for _, n := range c.Clients {
		if n < 1 {
			errs = append(errs, fmt.Errorf("clients must be at least 1, not %d", n))
		}
	}
	if c.Compensated < 0 || c.Mixed < 0 {
		errs = append(errs, fmt.Errorf("compensated and mixed must be at least 0, not %d and %d", c.Compensated, c.Mixed))
	}
	if len(c.Modes) == 0 {
		errs = append(errs, errors.New("no mode to measure: specify submit, wait or both"))
	}
	for _, m := range c.Modes {
		if !slices.Contains([]Mode{Submit, Wait}, m) {
			errs = append(errs, fmt.Errorf("mode must be submit or wait, not %q", m))
		}
	}
	if c.Duration <= 0 || c.Drain <= 0 || c.Warmup < 0 {
		errs = append(errs, errors.New("duration and drain must be positive, and warmup must not be negative"))
	}
	if info, err := os.Stat(c.Skald); err != nil || info.IsDir() {
		errs = append(errs, fmt.Errorf("no server binary at %s: build it with go build -o %[1]s ./cmd/skald", c.Skald))
	}
	return errors.Join(errs...)
}
