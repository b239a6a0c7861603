package app

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func TestOnlyAnEndedProcessOfThisMachineIsGone(t *testing.T) {
	own := strings.Fields(thisProcess())
	if len(own) != 4 {
		t.Fatalf("this process is %q", own)
	}
	name := func(change func([]string)) string {
		f := append([]string(nil), own...)
		change(f)
		return strings.Join(f, " ")
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(child.Process.Pid)
	living := name(func(f []string) { f[2], f[3] = pid, processBegan(pid) })
	for what, tt := range map[string]struct {
		process string
		gone    bool
	}{
		"this one":                               {thisProcess(), false},
		"another living one":                     {living, false},
		"one whose number another has got since": {name(func(f []string) { f[3] = "1" }), true},
		"one of another boot":                    {name(func(f []string) { f[0] = "b"; f[3] = "1" }), false},
		"one of another container":               {name(func(f []string) { f[1] = "pid:[1]"; f[3] = "1" }), false},
		"an unknown one":                         {"", false},
	} {
		if got := isGone(tt.process); got != tt.gone {
			t.Errorf("%s: gone = %v", what, got)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if !isGone(living) {
		t.Error("a process that has ended is not gone")
	}
}
