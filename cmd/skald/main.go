// Command skald runs sagas on PostgreSQL and serves their API.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
	_ "time/tzdata" // time zones, for machines without them

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"

	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/failpoint"
	"github.com/skald-saga/skald/internal/postgres/devpg"
)

type cli struct {
	Config string `short:"c" type:"existingfile" help:"YAML file with settings; environment variables override it."`

	ShowVersion kong.VersionFlag `name:"version" short:"v" help:"Print the version."`

	Serve       serveCmd       `cmd:"" help:"Run sagas and jobs and serve the API. Without a configured database, start a private PostgreSQL."`
	Ready       readyCmd       `cmd:"" aliases:"health" help:"Check that the server with this configuration on this machine is ready; fail if it is not."`
	Migrate     migrateCmd     `cmd:"" help:"Apply or revert migrations of the database schema, or show their status."`
	Key         keyCmd         `cmd:"" help:"Create, list and revoke API keys."`
	Workflow    workflowCmd    `cmd:"" help:"Validate workflow definitions."`
	Audit       auditCmd       `cmd:"" help:"Verify the audit trail."`
	Participant participantCmd `cmd:"" help:"Test whether a participant keeps the rules, or run one that misbehaves on request."`
	Demo        demoCmd        `cmd:"" help:"Run three orders through a private server: one completes, one is refused, one ends with an unknown outcome."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
	Completion  completionCmd  `cmd:"" help:"Print the script that completes commands and flags in a shell."`
	Licenses    licensesCmd    `cmd:"" help:"Print the licences of Skald and of everything that it contains."`
	Help        helpCmd        `cmd:"" help:"Show the commands, or the flags of one command."`

	overrides []string       // settings from flags, as environment variables
	level     *slog.LevelVar // the level of the logger that load has returned

	Failpoints failpointsCmd `cmd:"" hidden:"" help:"List the failpoints of this binary."`
}

func main() {
	var c cli
	// After a usage error, only one line of usage is printed: the full text would bury the message.
	parser := kong.Must(&c, kong.Name("skald"), kong.ShortUsageOnError(), kong.Vars{"version": versionLine()},
		kong.Description("A saga orchestrator on PostgreSQL. Settings: docs/configuration.md."))
	kongcompletion.Register(parser) // answers the shell's request for completions and exits, if there is one
	args := os.Args[1:]
	if len(args) == 0 { // servers are started only on request
		args = []string{"--help"}
	}
	k, err := parser.Parse(args)
	parser.FatalIfErrorf(err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k.BindTo(ctx, (*context.Context)(nil))
	if err := k.Run(&c); err != nil {
		fmt.Fprintln(os.Stderr, "skald:", err)
		stop()
		code := 1
		if own := (failed{}); errors.As(err, &own) { // errors of kong have their own exit codes
			code = own.code
		}
		os.Exit(code)
	}
}

// load reads the settings and returns the logger that they configure.
func (c *cli) load() (config.Config, *slog.Logger, error) {
	cfg, err := config.Load(c.Config, append(os.Environ(), c.overrides...))
	if err != nil {
		return cfg, nil, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		return cfg, nil, err
	}
	c.level = new(slog.LevelVar)
	c.level.Set(level)
	opts := &slog.HandlerOptions{Level: c.level}
	if cfg.Log.Format == "text" {
		return cfg, slog.New(slog.NewTextHandler(os.Stderr, opts)), nil
	}
	return cfg, slog.New(slog.NewJSONHandler(os.Stderr, opts)), nil
}

// loadExisting is load for commands that read or change what a server has stored. The private
// PostgreSQL must exist: a new one would be empty, and a user who forgot to name a database would
// trust the result.
func (c *cli) loadExisting() (config.Config, *slog.Logger, error) {
	cfg, log, err := c.load()
	if err == nil && cfg.Database.Embedded() && !devpg.Exists(cfg.Database.EmbeddedDir) {
		err = fmt.Errorf("no database is configured, and there is no private PostgreSQL in %s: "+
			"set SKALD_DATABASE_URL, or the settings under database", cfg.Database.EmbeddedDir)
	}
	return cfg, log, err
}

// ballast is memory that is allocated but never touched: it uses no RAM, but the garbage collector
// counts it. Skald's live heap is only a few megabytes and would otherwise be collected hundreds of
// times a second under load. A saga costs the server 300 µs of CPU with ballast and 388 µs without
// (64 clients, alternating). GOGC=400 comes close, with 320 µs, but also lets large heaps grow: 645
// MB instead of 329 MB while records of 10 MB are redriven.
const ballast = 32 << 20

type serveCmd struct {
	Store string `enum:"postgres,memory," default:"" help:"Where sagas are stored: postgres, or memory for trials (lost at exit)."`
	Roles string `placeholder:"ROLES" help:"What this process does, separated by commas: api, engine, scheduler, worker, ingest. All by default."`
}

func (s serveCmd) Run(ctx context.Context, c *cli) error {
	if s.Store != "" {
		c.overrides = append(c.overrides, "SKALD_STORE="+s.Store)
	}
	if s.Roles != "" {
		c.overrides = append(c.overrides, "SKALD_ROLES="+s.Roles)
	}
	defer runtime.KeepAlive(make([]byte, ballast))
	cfg, log, err := c.load()
	if err != nil {
		return err
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	again := func() (config.Config, error) { return config.Load(c.Config, append(os.Environ(), c.overrides...)) }
	return app.Run(ctx, cfg, app.Options{
		Version: buildInfo(), Log: log, EUID: os.Geteuid(), Hangup: hangup, Level: c.level, Load: again,
	})
}

type readyCmd struct{}

// Run asks the server with this configuration on this machine whether it is ready. It serves health
// checks of containers, which have no other client.
func (readyCmd) Run(ctx context.Context, c *cli) error {
	cfg, _, err := c.load()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(cfg.Server.ListenAddr)
	if err != nil {
		return fmt.Errorf("read the server's address: %w", err)
	}
	if at, err := netip.ParseAddr(host); host == "" || err == nil && at.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // /readyz answers within two
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the server is not ready: %s", res.Status)
	}
	fmt.Println("ready")
	return nil
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command to explain."`
}

func (h helpCmd) Run(k *kong.Kong) error {
	_, err := k.Parse(append(h.Command, "--help"))
	return err
}

type failpointsCmd struct{}

func (failpointsCmd) Run() error {
	if !failpoint.Enabled {
		return errors.New("this binary was built without failpoints: build it with -tags failpoints")
	}
	for _, n := range failpoint.All {
		fmt.Println(n)
	}
	return nil
}

// counted returns a number with the form of a word that agrees with it.
func counted[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}
