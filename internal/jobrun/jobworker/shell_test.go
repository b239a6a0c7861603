//go:build unix

package jobworker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/jobworker"
	"github.com/skald-saga/skald/internal/test/patience"
)

// ran is the result of a program.
type ran struct {
	*jobworker.Run
	out, errs string
	err       error
}

// code returns the failure's code, or "" if there is none.
func (r *ran) code() string {
	var f *jobworker.Failure
	if errors.As(r.err, &f) {
		return f.Code
	}
	return ""
}

// shell executes a run with args ("" for none) of a definition with these default_args.
func shell(t *testing.T, ctx context.Context, defaults, args string) *ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	spec := &jobrun.Spec{CommandName: "shell", DefaultArgs: json.RawMessage(defaults)}
	if defaults == "" {
		spec.DefaultArgs = nil
	}
	r := &ran{Run: &jobworker.Run{
		Run: jobrun.Run{ID: uuid.New(), Attempt: 2, LeaderEpoch: 7, FencingSeq: 9, DefinitionName: "d",
			Args: json.RawMessage(args)},
		Stdout: &stdout, Stderr: &stderr,
	}}
	if args == "" {
		r.Args = spec.DefaultArgs
	}
	c := jobworker.ShellConfig{
		Allow: []string{"/bin/sh", "/bin/echo", "/usr/bin/env", "/bin/cat"}, EnvAllow: []string{"X", "BASH_ENV"},
		Spec: func(context.Context, *jobrun.Run) (*jobrun.Spec, error) { return spec, nil },
	}
	_, r.err = jobworker.Shell(c)(ctx, r.Run)
	r.out, r.errs = stdout.String(), stderr.String()
	return r
}

func TestAProgramGetsItsEnvironment(t *testing.T) {
	t.Setenv("SKALD_SECRET", "canary")
	r := shell(t, t.Context(), `{"script":"echo $SKALD_FENCING_TOKEN $SKALD_ATTEMPT $X \"[$SKALD_SECRET]\"; echo oops >&2","env":{"X":"y"}}`, "")
	if r.err != nil || r.out != "7.9 2 y []\n" || r.errs != "oops\n" || *r.ExitCode != 0 {
		t.Errorf("%q %q %v", r.out, r.errs, r.err)
	}
	if r.Resources.PeakRSSBytes == nil || *r.Resources.PeakRSSBytes < 100_000 || r.Resources.CPUSecondsTotal == nil {
		t.Errorf("used: %+v", r.Resources)
	}
	if r := shell(t, t.Context(), `{"argv":["/bin/echo","a b"]}`, ""); r.err != nil || r.out != "a b\n" {
		t.Errorf("%q %v", r.out, r.err)
	}
}

func TestOnlyWhatIsAllowedRuns(t *testing.T) {
	t.Parallel()
	for defaults, code := range map[string]string{
		`{"argv":["/bin/ls","/etc/passwd"]}`: "NOT_ALLOWED", `{"argv":["echo"]}`: "NOT_ALLOWED", `{"argv":["/bin/../bin/echo"]}`: "", `{}`: "BAD_DEFINITION", ``: "BAD_DEFINITION",
		`{"script":"true","argv":["/bin/echo"]}`: "BAD_DEFINITION", `[1]`: "BAD_DEFINITION", `{"script":"exit 3"}`: "EXIT_3", `{"script":"kill -9 $$"}`: "SIGNALED",
		`{"script":"true","dir":"/no/such"}`: "NOT_STARTED", `{"script":"true","env":{"Y":"1"}}`: "NOT_ALLOWED", `{"script":"true","env":{"LD_PRELOAD":"/x"}}`: "NOT_ALLOWED",
		`{"script":"true","env":{"SKALD_ARG_X":"1"}}`: "NOT_ALLOWED", `{"script":"true","env":{"PATH":"/x"}}`: "NOT_ALLOWED", `{"script":"true","env":{"":"1"}}`: "NOT_ALLOWED",
		`{"script":"{args}"}`: "BAD_DEFINITION", `{"argv":["/bin/sh","-ec","{args}"]}`: "BAD_DEFINITION", `{"argv":["/bin/sh","-c","--","{args}"]}`: "BAD_DEFINITION", `{"argv":["/usr/bin/env","echo","{args}"]}`: "BAD_DEFINITION",
		`{"argv":["/bin/echo","{args}x"]}`: "BAD_DEFINITION", `{"argv":["{args}"]}`: "NOT_ALLOWED",
	} {
		if r := shell(t, t.Context(), defaults, ""); r.code() != code {
			t.Errorf("%s: %v, want %s", defaults, r.err, code)
		}
	}
	r := shell(t, t.Context(), `{"argv":["/bin/ls"]}`, "")
	if want := "jobs.worker_shell_allow of this node does not list /bin/ls"; r.err == nil || r.err.Error() != want {
		t.Errorf("the refusal says %v, want %q", r.err, want)
	}
}

// The arguments of a run never determine what is executed, whatever the names in them mean to the
// command, a loader, a shell or an interpreter.
func TestArgumentsOfARunAreNeverExecuted(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "escaped")
	touch := "touch " + mark
	for _, args := range []string{
		`{"script":"TOUCH"}`, `{"argv":["/bin/sh","-c","TOUCH"]}`, `{"script":"TOUCH","argv":["/bin/sh"],"dir":"/tmp","env":{"X":"z"}}`, `{"dir":"/tmp"}`,
		`{"env":{"BASH_ENV":"$(TOUCH)","ENV":"$(TOUCH)","X":"z"}}`, `{"Script":"TOUCH"}`, `{"default_args":{"script":"TOUCH"}}`, `["TOUCH"]`, `"TOUCH"`,
		`{"ENV":"$(TOUCH)","PATH":"/tmp","IFS":"/","LD_PRELOAD":"/no.so","SKALD_ARG_X":"1","a\nb=c":"() { :; }; TOUCH"}`, `null`, `7`,
	} {
		for _, defaults := range []string{
			`{"script":"echo fixed $X; pwd","dir":"/","env":{"X":"y"}}`, `{"argv":["/bin/sh","-c","echo fixed $X; pwd"],"dir":"/","env":{"X":"y"}}`,
		} {
			r := shell(t, t.Context(), defaults, strings.ReplaceAll(args, "TOUCH", touch))
			if r.err != nil || r.out != "fixed y\n/\n" || r.errs != "" {
				t.Errorf("%s with %s: %q %q %v", defaults, args, r.out, r.errs, r.err)
			}
		}
		// These interpreters would read their program from standard input.
		for _, defaults := range []string{
			`{"argv":["/bin/sh"]}`, `{"argv":["/bin/sh","-s"]}`, `{"argv":["/bin/sh","/dev/stdin"]}`, `{"argv":["/usr/bin/env","sh","-"]}`, `{"argv":["/bin/sh","-o","errexit"]}`,
		} {
			args := strings.ReplaceAll(strings.ReplaceAll(args, "TOUCH", "$("+touch+")"), "$($(", "$((")
			if r := shell(t, t.Context(), defaults, args); r.out+r.errs != "" {
				t.Errorf("%s with %s: %q %q %v", defaults, args, r.out, r.errs, r.err)
			}
		}
	}
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		t.Error("something ran that no definition says")
	}
}

func TestArgumentsOfARunAreData(t *testing.T) {
	t.Parallel()
	const variables = `{"script":"env | grep ^SKALD_ARG_ | sort"}`
	long := strings.Repeat("x", 70_000)
	for _, c := range []struct{ defaults, args, out, code string }{
		{`{"argv":["/bin/cat"]}`, `{"day": "mon\"day", "n": 12345678901234567890}`, `{"day":"mon\"day","n":12345678901234567890}` + "\n", ""},
		{`{"argv":["/bin/cat"]}`, ``, "{}\n", ""},
		{`{"argv":["/bin/cat"]}`, `{ "argv": ["/bin/cat"] }`, "{}\n", ""}, // stored without arguments
		{`{"argv":["/bin/cat"]}`, `[1]`, "[1]\n", ""},
		{variables, `{"day":"$(id)","order-id":7,"ok":true,"off":null,"deep":{"x":1},"list":[1],"":"e"}`, "SKALD_ARG_=e\nSKALD_ARG_DAY=$(id)\nSKALD_ARG_OK=true\nSKALD_ARG_ORDER_ID=7\n", ""},
		{variables, `{"größe":1}`, "SKALD_ARG_GR__E=1\n", ""},
		{variables, `{"a-b":1,"A_B":2}`, "", "BAD_ARGS"},
		{variables, `{"a":"x\u0000y"}`, "", "BAD_ARGS"},
		{variables, `{"a":`, "", "BAD_ARGS"},
		{`{"script":"env | grep -c ^SKALD_ARG_; wc -c"}`, `{"a":"` + long + `"}`, "0\n70009\n", ""},
		{`{"argv":["/bin/echo","-n","{args}","{args}"]}`, `{"a": 1}`, `{"a":1} {"a":1}`, ""},
		{`{"argv":["/bin/sh","-c","printf %s \"$1\"","sh","{args}"]}`, `["$(id)"]`, `["$(id)"]`, ""},
		{`{"argv":["/bin/cat","{args}"]}`, `{"a":1}`, "", "BAD_DEFINITION"},
		{`{"argv":["/bin/echo","{args}"]}`, ``, "{}\n", ""},
		{`{"argv":["/bin/echo","{args}"]}`, `-1`, "", "BAD_ARGS"},
		{`{"argv":["/bin/echo","{args}"]}`, `{"a":"` + long + `"}`, "", "BAD_ARGS"},
	} {
		if r := shell(t, t.Context(), c.defaults, c.args); r.out != c.out || r.code() != c.code {
			t.Errorf("%s with %.60s: %q %v, want %q %s", c.defaults, c.args, r.out, r.err, c.out, c.code)
		}
	}
}

func TestAProgramAndItsChildrenEndWithItsRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	mark := filepath.Join(t.TempDir(), "child")
	ended := make(chan error, 1)
	go func() {
		r := shell(t, ctx, `{"script":"trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > `+mark+`.tmp; mv `+mark+`.tmp `+mark+`; sleep 600' & wait; sleep 600"}`, "")
		ended <- r.err
	}()
	var pid int
	patience.Until(t, "the program begins", func() bool {
		text, err := os.ReadFile(mark)
		if err != nil {
			return false
		}
		if pid, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			t.Fatal(err)
		}
		return true
	})
	cancel(jobworker.ErrLost)
	if err := patience.Receive(t, "the program ends", ended); !errors.Is(err, jobworker.ErrLost) {
		t.Errorf("it ended with %v", err)
	}
	patience.Until(t, "what the program has started ends", func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) })
}

// zombie reports whether a process has ended without being waited for.
func zombie(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
