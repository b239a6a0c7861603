package jobworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun"
)

// ShellConfig configures the command shell. Every field is required; the lists may be empty.
type ShellConfig struct {
	// Allow lists the programs that may run, by their absolute paths. A script requires /bin/sh.
	Allow []string
	// EnvAllow lists the variables that definitions may set.
	EnvAllow []string
	// ArgsAllow lists the programs that treat their arguments as data, so that a run's arguments
	// may be passed on their command line.
	ArgsAllow []string
	// Spec returns the spec that the definition of a run had when the run was created.
	Spec func(context.Context, *jobrun.Run) (*jobrun.Spec, error)
}

const (
	shell     = "/bin/sh"
	killAfter = 5 * time.Second // from SIGTERM to SIGKILL
)

// baseEnv lists the variables of the node's environment that programs get.
var baseEnv = []string{"PATH", "HOME", "LANG", "TZ"}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// EnvAllowable reports whether jobs.worker_shell_env_allow may contain a name. The name must be
// valid and must differ from Skald's variables and those from the node's environment.
func EnvAllowable(name string) bool {
	return envName.MatchString(name) && !strings.HasPrefix(name, "SKALD_") && !slices.Contains(baseEnv, name)
}

// Shell returns the command that executes programs. The program, its arguments, directory and
// variables come only from the version of the definition to which the run is pinned. The arguments
// of the run, which any caller with permission to create runs may choose, reach the program as data
// (runData).
//
// The program runs in its own process group, which is terminated when the run ends: first with
// SIGTERM, and after five seconds with SIGKILL. The exit code and the resources used are reported.
// Any exit code other than 0 is a failure, with the code EXIT_n.
func Shell(c ShellConfig) Command {
	return func(ctx context.Context, r *Run) (json.RawMessage, error) {
		spec, err := c.Spec(ctx, &r.Run)
		if err != nil {
			return nil, fmt.Errorf("read the definition of the run: %w", err)
		}
		p, err := c.program(r.DefinitionName, spec)
		if err != nil {
			return nil, err
		}
		data, err := dataOf(r.Args, spec.DefaultArgs)
		if err != nil {
			return nil, err
		}
		if p.Argv, err = data.fill(p.Argv); err != nil {
			return nil, err
		}
		return nil, execute(ctx, r, p, data)
	}
}

// program reads the program of a definition, and rejects it if this node does not allow it. Its
// Argv is never empty.
func (c *ShellConfig) program(definition string, spec *jobrun.Spec) (*jobrun.Program, error) {
	bad := func(format string, args ...any) (*jobrun.Program, error) {
		return nil, &Failure{Code: "BAD_DEFINITION", Message: "default_args of the definition " + definition + " " + fmt.Sprintf(format, args...),
			Permanent: true}
	}
	if spec.CommandName != jobrun.ShellCommand {
		return bad("belong to the command %q, not to %s", spec.CommandName, jobrun.ShellCommand)
	}
	p, err := jobrun.ProgramOf(spec.DefaultArgs)
	if err != nil {
		return bad("must contain script or argv and, optionally, env and dir: %v", err)
	}
	if (p.Script == "") == (len(p.Argv) == 0) {
		return bad("must have either script or argv: the definition determines the program, and the arguments of a run are only data")
	}
	misplaced := p.CheckSlots(c.ArgsAllow) // definitions may be older than this rule
	if p.Script != "" {
		p.Argv = []string{shell, "-c", p.Script}
	}
	if !slices.Contains(c.Allow, filepath.Clean(p.Argv[0])) || !filepath.IsAbs(p.Argv[0]) {
		return nil, &Failure{Code: "NOT_ALLOWED", Message: "jobs.worker_shell_allow of this node does not list " + p.Argv[0], Permanent: true}
	}
	for name := range p.Env {
		if !slices.Contains(c.EnvAllow, name) || !EnvAllowable(name) {
			return nil, &Failure{Code: "NOT_ALLOWED", Message: "jobs.worker_shell_env_allow of this node does not list the variable " + strconv.Quote(name), Permanent: true}
		}
	}
	if misplaced != nil {
		return bad("are invalid: %s", fault.As(misplaced).Detail)
	}
	return &p, nil
}

// environment returns the environment of a program: Skald's variables, those of the node, those of
// the definition, and the run's arguments. Names are unique, because names from the first three
// sources cannot begin with the prefix of the arguments.
func environment(r *Run, p *jobrun.Program, d *runData) []string {
	env := []string{
		"SKALD_RUN_ID=" + r.ID.String(), "SKALD_ATTEMPT=" + strconv.Itoa(r.Attempt), "SKALD_FENCING_TOKEN=" +
			r.FencingToken(),
		"SKALD_DEFINITION=" + r.DefinitionName, "SKALD_IDEMPOTENCY_KEY=" + r.IdempotencyKey,
		"SKALD_SCHEDULED_FOR=" + r.ScheduledFor.UTC().Format(time.RFC3339Nano),
	}
	for _, name := range baseEnv {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for name, v := range p.Env {
		env = append(env, name+"="+v)
	}
	return append(env, d.variables...)
}

func execute(ctx context.Context, r *Run, p *jobrun.Program, d *runData) error {
	cmd := exec.CommandContext(ctx, p.Argv[0], p.Argv[1:]...) //nolint:gosec // on the list of allowed programs
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = p.Dir, r.Stdout, r.Stderr, environment(r, p, d)
	if !readsProgram(p.Argv) {
		cmd.Stdin = d.reader()
	}
	ownGroup(cmd)
	cmd.WaitDelay = killAfter
	err := cmd.Run()
	endGroup(cmd) // ends processes that the program left behind
	if cmd.ProcessState != nil {
		r.Resources = used(cmd.ProcessState)
	}
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // the program has ended; the pipes it left open are closed
		r.ExitCode = new(0)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit):
		code := exit.ExitCode()
		r.ExitCode = &code
		if code < 0 {
			return &Failure{Code: "SIGNALED", Message: exit.String()}
		}
		return &Failure{Code: fmt.Sprintf("EXIT_%d", code), Message: exit.String()}
	}
	return &Failure{Code: "NOT_STARTED", Message: err.Error()}
}
