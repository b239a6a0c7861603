package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ScalingConfig describes a measurement of how the cost of a saga grows with each of four things. While one
// varies, the others stay as they are in the base: 16 clients that wait, three steps, 100 bytes, an
// empty table.
type ScalingConfig struct {
	Skald     string   // path of the server binary
	ServerEnv []string // KEY=VALUE
	Self      string   // the program that answers to "participant" and "load"
	// Places are where the sizes of Stored are measured, one each.
	Places []Place
	// Steps of a saga, Payloads in bytes, InFlight sagas, and sagas Stored before; nil: not measured. Stored
	// has at least one, and the other three are measured in its first.
	Steps, Payloads, InFlight, Stored []int
	// Rounds is how often every point is measured, in turns; the median counts.
	Rounds   int
	Duration time.Duration // for which each point creates sagas
	Out      io.Writer
}

// Place is an empty, durable database, and an existing directory for its server's log.
type Place struct{ DatabaseURL, Dir string }

// The base, which is measured beside every series.
const (
	baseClients = 16
	baseSteps   = 3
	basePayload = 100
)

// scalingWarmup lets connections open and plans be made before each point.
const scalingWarmup = time.Second

// Scaling measures, and prints a table and a drawing of each series to cfg.Out. An error means that the
// figures are invalid.
func Scaling(ctx context.Context, cfg ScalingConfig) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if len(cfg.Places) != len(cfg.Stored) {
		return fmt.Errorf("got %d places for %d sizes", len(cfg.Places), len(cfg.Stored))
	}
	if cfg.Skald, err = filepath.Abs(cfg.Skald); err != nil {
		return fmt.Errorf("resolve the path of the server: %w", err)
	}
	runs := make([]*run, len(cfg.Places))
	defer func() {
		for _, r := range runs {
			if r != nil {
				err = errors.Join(err, r.stopChildren())
				r.db.close()
			}
		}
	}()
	for i, place := range cfg.Places {
		if runs[i], err = cfg.start(ctx, place, cfg.Stored[i]); err != nil {
			return err
		}
	}
	machine, err := describeMachine(cfg.Skald, runs[0].db)
	if err != nil {
		return err
	}
	printMachine(cfg.Out, machine)
	for _, s := range cfg.series(runs) {
		if err := s.measure(ctx, cfg.Rounds); err != nil {
			return err
		}
		s.print(cfg.Out)
	}
	return nil
}

// Validate reports the first mistake in the figures.
func (cfg ScalingConfig) Validate() error {
	if len(cfg.Stored) == 0 {
		return errors.New("stored must list at least one size")
	}
	if cfg.Rounds < 1 || cfg.Duration <= 0 {
		return errors.New("rounds must be at least 1, and duration must be positive")
	}
	for name, least := range map[string]int{"steps": 1, "payloads": basePayload, "in-flight": 1, "stored": 0} {
		values := map[string][]int{
			"steps": cfg.Steps, "payloads": cfg.Payloads, "in-flight": cfg.InFlight, "stored": cfg.Stored,
		}[name]
		if len(values) > 0 && slices.Min(values) < least {
			return fmt.Errorf("%s must be at least %d, not %d", name, least, slices.Min(values))
		}
	}
	return nil
}

// start fills a database with so many sagas and starts a server on it that knows the workflows.
func (cfg ScalingConfig) start(ctx context.Context, place Place, stored int) (*run, error) {
	if stored > 0 {
		err := Generate(ctx, GenerateConfig{DatabaseURL: place.DatabaseURL, Sagas: stored, LogsPerSaga: baseSteps, Out: cfg.Out})
		if err != nil {
			return nil, err
		}
	}
	db, err := openDatabase(ctx, place.DatabaseURL)
	if err != nil {
		return nil, err
	}
	r := &run{db: db, report: &Report{}, cfg: Config{
		Skald: cfg.Skald, DatabaseURL: place.DatabaseURL, Dir: place.Dir, Self: cfg.Self, Out: cfg.Out,
		// All clients have one address.
		ServerEnv: append([]string{"SKALD_SERVER_MAX_CONNECTIONS_PER_ADDRESS=0"}, cfg.ServerEnv...),
		Duration:  cfg.Duration, Warmup: min(scalingWarmup, cfg.Duration), Drain: 2 * time.Minute,
	}}
	if err := r.startParticipant(ctx); err != nil {
		return r, err
	}
	var ready Millis
	if err := r.measureStart(ctx, &ready); err != nil {
		return r, err
	}
	for _, steps := range append([]int{baseSteps}, cfg.Steps...) {
		if err := registerWorkflow(ctx, r.serverURL, workflowOf(r.participantAddr, steps)); err != nil {
			return r, err
		}
	}
	return r, nil
}

// workflowOf has so many steps, which all succeed.
func workflowOf(participant string, steps int) workflow {
	all := make([]any, steps)
	for i := range all {
		all[i] = map[string]any{
			"name": fmt.Sprintf("step-%d", i+1), "action": call(participant, "/stock/reserve"),
			"compensation": call(participant, "/stock/release"),
		}
	}
	name := fmt.Sprintf("bench-%d", steps)
	return workflow{
		name: name, definition: map[string]any{"name": name, "steps": all},
		wantStatus: "COMPLETED", wantState: stateCompleted, executed: steps,
	}
}

// series is one thing that varies.
type series struct {
	what   string
	points []*point
}

// point is one value of a series.
type point struct {
	value  int
	spec   levelSpec
	run    *run
	levels []Level
}

// series returns those that are measured. The table grows with everything that is measured before, so the
// sizes of the table come first.
func (cfg ScalingConfig) series(runs []*run) (all []*series) {
	spec := func(r *run, steps, clients, payload int) levelSpec {
		return levelSpec{
			flow: workflowOf(r.participantAddr, steps), mode: Wait, clients: clients, payload: payload,
		}
	}
	add := func(what string, values []int, at func(i int) *run, of func(r *run, value int) levelSpec) {
		if len(values) == 0 {
			return
		}
		s := &series{what: what}
		for i, value := range values {
			s.points = append(s.points, &point{value: value, run: at(i), spec: of(at(i), value)})
		}
		all = append(all, s)
	}
	first := func(int) *run { return runs[0] }
	add("sagas stored before", cfg.Stored, func(i int) *run { return runs[i] },
		func(r *run, _ int) levelSpec { return spec(r, baseSteps, baseClients, basePayload) })
	add("steps", cfg.Steps, first, func(r *run, n int) levelSpec { return spec(r, n, baseClients, basePayload) })
	add("sagas in flight", cfg.InFlight, first, func(r *run, n int) levelSpec { return spec(r, baseSteps, n, basePayload) })
	add("bytes of payload", cfg.Payloads, first, func(r *run, n int) levelSpec { return spec(r, baseSteps, baseClients, n) })
	return all
}

// measure measures all points in turns, every second round backwards.
func (s *series) measure(ctx context.Context, rounds int) error {
	for round := range rounds {
		order := slices.Clone(s.points)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, p := range order {
			l, err := p.run.runLevel(ctx, p.spec)
			if err != nil {
				return fmt.Errorf("%d %s: %w", p.value, s.what, err)
			}
			p.levels = append(p.levels, l)
		}
	}
	return nil
}

// figure returns the median of one figure over the rounds.
func (p *point) figure(of func(Level) float64) float64 {
	values := make([]float64, len(p.levels))
	for i, l := range p.levels {
		values[i] = of(l)
	}
	return median(values)
}

// cpuBy returns the CPU time in ms of some of the processes for each saga.
func cpuBy(some func(Cores) float64) func(Level) float64 {
	return func(l Level) float64 {
		c := l.Cores
		known := c.Skald + c.Participant + c.Load
		if c.Postgres != nil {
			known += *c.Postgres
		}
		if known == 0 {
			return 0
		}
		return float64(l.CPUPerSaga) * some(c) / known
	}
}

// print writes the table of a series, as Markdown. Its last column draws the CPU of a saga: each block
// stands for a factor of the square root of 2, so that what grows in proportion is a straight line.
func (s *series) print(w io.Writer) {
	fmt.Fprintf(w, "\n| %s | sagas/s | p50, ms | CPU, ms | of it skald | PostgreSQL | WAL, kB | refused | CPU drawn |\n", s.what)
	fmt.Fprintln(w, "|---:|---:|---:|---:|---:|---:|---:|---:|:---|")
	cpu := func(l Level) float64 { return float64(l.CPUPerSaga) }
	least := math.Inf(1)
	for _, p := range s.points {
		least = min(least, p.figure(cpu))
	}
	for _, p := range s.points {
		fmt.Fprintf(w, "| %s | %.0f | %.1f | %.2f | %.2f | %.2f | %.1f | %.0f | %s |\n",
			thousands(p.value),
			p.figure(func(l Level) float64 { return l.PerSecond }),
			p.figure(func(l Level) float64 { return float64(l.EndToEnd.P50) }),
			p.figure(cpu),
			p.figure(cpuBy(func(c Cores) float64 { return c.Skald })),
			p.figure(cpuBy(postgresOf)),
			p.figure(func(l Level) float64 { return float64(l.WALPerSaga) / 1000 }),
			p.figure(func(l Level) float64 { return float64(l.Errors) }),
			strings.Repeat("█", 1+int(math.Round(2*math.Log2(p.figure(cpu)/least)))))
	}
}

func postgresOf(c Cores) float64 {
	if c.Postgres == nil {
		return 0
	}
	return *c.Postgres
}
