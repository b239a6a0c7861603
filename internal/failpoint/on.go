//go:build failpoints

package failpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Enabled reports whether this binary was built with failpoints.
const Enabled = true

type rule struct {
	mode  string // kill, err, exec_err, pause
	pause time.Duration
	nth   int     // act only on the nth hit; 0: on every hit
	share float64 // act on this fraction of hits; 0: on all
	hits  int     // guarded by mu
}

var (
	mu    sync.Mutex
	rules = map[Name]*rule{} // guarded by mu
)

// Configure replaces the rules of the process with those of spec, whose syntax is in the
// package comment. On an error the rules stay unchanged.
func Configure(spec string) error {
	configured := map[Name]*rule{}
	for _, part := range strings.Split(spec, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, what, ok := strings.Cut(part, "=")
		if !ok || !slices.Contains(All, Name(name)) {
			return fmt.Errorf("failpoint %q: known points are %v", part, All)
		}
		r, err := parse(what)
		if err != nil {
			return fmt.Errorf("failpoint %q: %w", part, err)
		}
		configured[Name(name)] = r
	}
	mu.Lock()
	defer mu.Unlock()
	rules = configured
	return nil
}

func parse(what string) (*rule, error) {
	r := &rule{}
	var err error
	if mode, n, ok := strings.Cut(what, "@"); ok {
		what = mode
		if r.nth, err = strconv.Atoi(n); err != nil || r.nth < 1 {
			return nil, fmt.Errorf("after @ there must be a count of at least 1")
		}
	}
	if mode, p, ok := strings.Cut(what, "%"); ok {
		what = mode
		if r.share, err = strconv.ParseFloat(p, 64); err != nil || !(r.share > 0 && r.share <= 1) {
			return nil, fmt.Errorf("after %% there must be a share in (0,1]")
		}
	}
	switch what {
	case "kill", "err", "exec_err":
		r.mode = what
		return r, nil
	}
	arg, begins := strings.CutPrefix(what, "pause(")
	arg, ends := strings.CutSuffix(arg, ")")
	if !begins || !ends {
		return nil, fmt.Errorf("the mode must be kill, err, exec_err or pause(duration)")
	}
	r.mode = "pause"
	if r.pause, err = time.ParseDuration(arg); err != nil || r.pause < 0 {
		return nil, fmt.Errorf("a pause must have a duration such as 1.5s")
	}
	return r, nil
}

// Hit acts as configured for the failpoint: it may never return (kill), return late (pause) or
// return ErrInjected. The first hit of each failpoint is printed to stderr, so that tests can see
// that it was reached.
func Hit(name Name) error {
	mu.Lock()
	r := rules[name]
	if r == nil {
		r = &rule{}
		rules[name] = r
	}
	r.hits++
	if r.hits == 1 {
		fmt.Fprintf(os.Stderr, "failpoint reached: %s\n", name)
	}
	act := r.mode != "" && (r.nth == 0 || r.hits == r.nth) && (r.share == 0 || rand.Float64() < r.share)
	mu.Unlock()
	if !act {
		return nil
	}
	switch r.mode {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "pause":
		time.Sleep(r.pause)
		return nil
	}
	return ErrInjected
}
