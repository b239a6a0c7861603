package jobworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// ShellCommand is the name of the command that runs programs.
const ShellCommand = "shell"

// shellArgs are the arguments of a shell run: either Script or Argv.
type shellArgs struct {
	Script string            `json:"script"` // for /bin/sh -c
	Argv   []string          `json:"argv"`   // a program by its absolute path, and its arguments
	Env    map[string]string `json:"env"`
	Dir    string            `json:"dir"`
}

const (
	shell     = "/bin/sh"
	killAfter = 5 * time.Second // from SIGTERM to SIGKILL
)

// Shell returns the command that runs programs: those of allowed, absolute paths,
// and no others; a script needs /bin/sh. Programs get none of the node's
// environment but PATH, HOME, LANG and TZ.
//
// The program runs in a process group of its own, which is ended when the run is:
// SIGTERM, and SIGKILL after five seconds. Exit code and what it has used are
// reported; any exit code but 0 is a failure, EXIT_n.
func Shell(allowed []string) Command {
	return func(ctx context.Context, r *Run) (json.RawMessage, error) {
		var a shellArgs
		if err := json.Unmarshal(r.Args, &a); err != nil {
			return nil, &Failure{Code: "BAD_ARGS", Message: "the arguments of shell are script or argv, env and dir: " + err.Error(), Permanent: true}
		}
		argv := a.Argv
		if a.Script != "" {
			argv = []string{shell, "-c", a.Script}
		}
		switch {
		case len(argv) == 0, a.Script != "" && a.Argv != nil:
			return nil, &Failure{Code: "BAD_ARGS", Message: "the arguments of shell need either script or argv", Permanent: true}
		case !slices.Contains(allowed, filepath.Clean(argv[0])) || !filepath.IsAbs(argv[0]):
			return nil, &Failure{Code: "NOT_ALLOWED", Message: "jobs.worker.shell_allow does not have " + argv[0], Permanent: true}
		}
		return nil, execute(ctx, r, argv, &a)
	}
}

func execute(ctx context.Context, r *Run, argv []string, a *shellArgs) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // on the list of what may run
	cmd.Dir, cmd.Stdout, cmd.Stderr = a.Dir, r.Stdout, r.Stderr
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	for name, v := range a.Env {
		cmd.Env = append(cmd.Env, name+"="+v)
	}
	cmd.Env = append(cmd.Env,
		"SKALD_RUN_ID="+r.ID.String(), "SKALD_ATTEMPT="+strconv.Itoa(r.Attempt), "SKALD_FENCING_TOKEN="+r.FencingToken(),
		"SKALD_DEFINITION="+r.DefinitionName, "SKALD_IDEMPOTENCY_KEY="+r.IdempotencyKey,
		"SKALD_SCHEDULED_FOR="+r.ScheduledFor.UTC().Format(time.RFC3339Nano))
	ownGroup(cmd)
	cmd.WaitDelay = killAfter
	err := cmd.Run()
	endGroup(cmd) // whatever it has left behind
	if cmd.ProcessState != nil {
		r.Resources = used(cmd.ProcessState)
	}
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it has ended; what it left open is closed
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
