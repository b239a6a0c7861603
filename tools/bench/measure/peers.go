package measure

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// PeersConfig describes a comparison of Skald with its peers.
type PeersConfig struct {
	Skald       string // path of the server binary
	DatabaseURL string // of a durable, empty database; DTM and River get databases beside it
	Dir         string // an existing directory for stores and logs
	Self        string // the program with the commands "participant" and "load"
	Programs    string // directory with the peers' programs: dtm, dtm.sql, restate-server, restate, river
	Peers       []string
	Levels      []string // keys of levels; empty: all
	Rounds      int
	MaxRounds   int           // of rows whose ratios differ too much from round to round
	Duration    time.Duration // how long orders are placed in each turn
	Warmup      time.Duration
	Drain       time.Duration // how long submitted orders may take to end
	JobsDivisor int           // 1 for the usual number of job runs, more for fewer
	ServerEnv   []string
	Out         io.Writer
}

// The peers, each with the programs that it needs.
var peerPrograms = map[string][]string{
	"dtm": {"dtm", "dtm.sql"}, "restate": {"restate-server", "restate"}, "river": {"river"},
}

// Validate reports all mistakes. A peer that was asked for and is missing is one.
func (c PeersConfig) Validate() error {
	var errs []error
	if c.MaxRounds < c.Rounds {
		errs = append(errs, fmt.Errorf("max-rounds must be at least rounds (%d)", c.Rounds))
	}
	if c.Rounds < 1 || c.Duration <= 0 || c.Drain <= 0 || c.Warmup < 0 || c.JobsDivisor < 1 {
		errs = append(errs, errors.New("rounds, duration, drain and jobs-divisor must be positive, and warmup must not be negative"))
	}
	known := levelKeys()
	for _, key := range c.Levels {
		if !slices.Contains(known, key) {
			errs = append(errs, fmt.Errorf("unknown level %q: use any of %s", key, strings.Join(known, ", ")))
		}
	}
	for _, peer := range c.Peers {
		programs, ok := peerPrograms[peer]
		if !ok {
			errs = append(errs, fmt.Errorf("unknown peer %q: use any of dtm, restate, river", peer))
		}
		for _, name := range programs {
			if _, err := os.Stat(filepath.Join(c.Programs, name)); err != nil {
				errs = append(errs, fmt.Errorf("a program of the peer %s is missing (run scripts/peers.sh): %w", peer, err))
			}
		}
	}
	if _, err := os.Stat(c.Skald); err != nil {
		errs = append(errs, fmt.Errorf("no server binary: %w", err))
	}
	return errors.Join(errs...)
}

func levelKeys() (keys []string) {
	for _, l := range peerLevels {
		keys = append(keys, l.key)
	}
	for _, l := range jobLevels {
		keys = append(keys, l.key)
	}
	return keys
}

// peersRun is one comparison.
type peersRun struct {
	cfg    PeersConfig
	db     *database
	client *http.Client

	participant     *child
	participantAddr string

	contestants []contestant
	jobs        *jobsRun
	riverURL    string
}

// Peers measures Skald and its peers with the same clients and participants, in turns: in each
// round each level is measured for one after the other, and only the measured one runs. It prints
// medians and ratios to cfg.Out. What a peer loses is a result. An error means that something could
// not be started, or that Skald lost a saga or did not make the calls of an order.
func Peers(ctx context.Context, cfg PeersConfig) (err error) {
	for _, path := range []*string{&cfg.Skald, &cfg.Programs, &cfg.Dir} {
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("resolve a path: %w", err)
		}
	}
	db, err := openDescribed(ctx, cfg.DatabaseURL, cfg.Skald, cfg.Out)
	if err != nil {
		return err
	}
	defer db.close()
	p := &peersRun{cfg: cfg, db: db, client: &http.Client{}}
	p.participant, p.participantAddr, err = startAnnounced(ctx, "participant", cfg.Self,
		"participant", "-record", "-listen", "127.0.0.1:0")
	if p.participant != nil {
		defer func() { err = errors.Join(err, p.participant.stop()) }()
	}
	if err != nil {
		return err
	}
	if err := p.gather(ctx); err != nil {
		return err
	}
	if err := p.printVersions(ctx); err != nil {
		return err
	}
	lines := p.lines()
	err = measureRounds(ctx, cfg.Out, lines, cfg.Rounds, cfg.MaxRounds)
	var rows []*peerRow
	for _, line := range lines {
		rows = append(rows, &line.peerRow)
	}
	printPeers(cfg.Out, cfg.Rounds, rows)
	return errors.Join(err, lossesOfSkald(rows))
}

// gather makes the contestants that were asked for. Skald always comes first.
func (p *peersRun) gather(ctx context.Context) error {
	dir := filepath.Join(p.cfg.Dir, "skald")
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return fmt.Errorf("create the directory of Skald: %w", err)
	}
	skald := &run{db: p.db, participantAddr: p.participantAddr, cfg: Config{
		Skald: p.cfg.Skald, DatabaseURL: p.cfg.DatabaseURL, Dir: dir, ServerEnv: p.cfg.ServerEnv, Out: p.cfg.Out,
	}}
	p.contestants = []contestant{&skaldContestant{run: skald}, &skaldContestant{run: skald, ahead: true}}
	if slices.Contains(p.cfg.Peers, "dtm") {
		for _, sync := range []bool{true, false} {
			p.contestants = append(p.contestants, &dtm{
				sync: sync, program: filepath.Join(p.cfg.Programs, "dtm"), dir: p.cfg.Dir,
				database: p.cfg.DatabaseURL, participant: p.participantAddr,
			})
		}
	}
	if slices.Contains(p.cfg.Peers, "restate") {
		p.contestants = append(p.contestants, &restate{
			program:        filepath.Join(p.cfg.Programs, "restate-server"),
			handlerProgram: filepath.Join(p.cfg.Programs, "restate"),
			dir:            p.cfg.Dir, participant: p.participantAddr, client: p.client,
		})
	}
	p.jobs = &jobsRun{
		db: p.db, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}},
		cfg: JobsConfig{
			Skald: p.cfg.Skald, DatabaseURL: p.cfg.DatabaseURL, Dir: p.cfg.Dir, ServerEnv: p.cfg.ServerEnv, Out: p.cfg.Out,
		},
	}
	for _, c := range p.contestants {
		if err := c.prepare(ctx); err != nil {
			return fmt.Errorf("prepare %s: %w", c.name(), err)
		}
	}
	return nil
}

// printVersions prints which versions of the peers are measured, and how they are set up.
func (p *peersRun) printVersions(ctx context.Context) error {
	for _, c := range []struct{ peer, program, module, as string }{
		{"dtm", "dtm", "github.com/dtm-labs/dtm",
			"on the same PostgreSQL, with " + dtmConnections + " connections; DTM with UpdateBranchSync (each step is stored " +
				"before the next one starts), \"DTM, its default\" without it (steps are stored later)"},
		{"restate", "restate", "github.com/restatedev/sdk-go", "the SDK of the service; one durable side effect per step"},
		{"river", "river", "github.com/riverqueue/river", "on the same PostgreSQL; fetches after " + riverCooldown},
	} {
		if !slices.Contains(p.cfg.Peers, c.peer) {
			continue
		}
		build, err := buildinfo.ReadFile(filepath.Join(p.cfg.Programs, c.program))
		if err != nil {
			return fmt.Errorf("read the version of %s: %w", c.peer, err)
		}
		version := build.Main.Version
		for _, dep := range build.Deps {
			if dep.Path == c.module {
				version = dep.Version
			}
		}
		fmt.Fprintf(p.cfg.Out, "%-11s %s, %s\n", c.peer, version, c.as)
	}
	if slices.Contains(p.cfg.Peers, "restate") {
		version, err := exec.CommandContext(ctx, filepath.Join(p.cfg.Programs, "restate-server"), "--version").Output()
		if err != nil {
			return fmt.Errorf("read the version of the Restate server: %w", err)
		}
		fmt.Fprintf(p.cfg.Out, "%-11s %s, the server with default settings, in a separate directory\n", "", strings.TrimSpace(string(version)))
	}
	fmt.Fprintln(p.cfg.Out)
	return nil
}
