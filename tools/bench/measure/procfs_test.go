package measure

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// fakeProc writes files, by path below its root, and returns them as a procfs.
func fakeProc(t *testing.T, files map[string]string) procfs {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return procfs(root)
}

// stat makes a line of /proc/<pid>/stat with these times in ticks.
func stat(name string, parent, user, system, childUser, childSystem int) string {
	line := "4711 (" + name + ") S " + strconv.Itoa(parent) + " 1 1 0 -1 4194560 100 0 0 0"
	for _, ticks := range []int{user, system, childUser, childSystem} {
		line += " " + strconv.Itoa(ticks)
	}
	return line + " 20 0 1 0 12345 0 0\n"
}

func TestParseProcess(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		want       process
	}{
		{
			"times are ticks of 10 ms",
			stat("skald", 17, 250, 50, 4, 3),
			process{name: "skald", parent: 17, cpu: 3 * time.Second, reaped: 70 * time.Millisecond},
		},
		{
			"a name may hold spaces and parentheses",
			stat("a (b) c) S 9", 17, 1, 0, 0, 0),
			process{name: "a (b) c) S 9", parent: 17, cpu: 10 * time.Millisecond},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseProcess(tt.line)
			if err != nil || got != tt.want {
				t.Errorf("parseProcess = %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
	for _, line := range []string{"", "4711 skald S 1", "4711 (skald) S 1 2 3", "4711 (skald) S x 1 1 0 -1 1 1 0 0 0 1 1 1 1 20"} {
		if got, err := parseProcess(line); err == nil {
			t.Errorf("parseProcess(%q) = %+v; want an error", line, got)
		}
	}
}

func TestFamilyCPUAddsChildrenLivingAndEnded(t *testing.T) {
	proc := fakeProc(t, map[string]string{
		"100/stat":  stat("postgres", 1, 10, 10, 100, 100), // postmaster: 2.2 s with reaped backends
		"101/stat":  stat("postgres", 100, 30, 0, 0, 0),    // backend: 0.3 s
		"102/stat":  stat("postgres", 100, 0, 50, 0, 0),    // backend: 0.5 s
		"200/stat":  stat("postgres", 1, 999, 999, 0, 0),   // of another server
		"self/stat": stat("bench", 100, 999, 0, 0, 0),      // not a number: a link to one
		"uptime":    "1 1\n",
	})
	if err := os.Mkdir(proc.path("103"), 0o755); err != nil { // ended while the others were read
		t.Fatal(err)
	}
	got, err := proc.familyCPU(100)
	if want := 3 * time.Second; err != nil || got != want {
		t.Errorf("familyCPU = %s, %v; want %s", got, err, want)
	}
	if _, err := proc.familyCPU(104); err == nil {
		t.Error("familyCPU of a process that is not there gave no error")
	}
}

func TestMemory(t *testing.T) {
	proc := fakeProc(t, map[string]string{
		"7/status": "Name:\tskald\nVmPeak:\t 900000 kB\nVmHWM:\t   65536 kB\nVmRSS:\t   32768 kB\nThreads:\t9\n",
		"8/status": "Name:\tkthreadd\nThreads:\t1\n",
	})
	got, err := proc.memory(7)
	if want := (memory{now: 32 << 20, peak: 64 << 20}); err != nil || got != want {
		t.Errorf("memory = %+v, %v; want %+v", got, err, want)
	}
	if got, err := proc.memory(8); err == nil {
		t.Errorf("memory of a process without any = %+v; want an error", got)
	}
}

func TestBusyLeavesOutIdleWaitingAndGuests(t *testing.T) {
	//                     user nice system idle iowait irq softirq steal guest guest_nice
	proc := fakeProc(t, map[string]string{"stat": "cpu  100 20 30 9999 8888 1 2 7 50 5\ncpu0 1 1 1 1 1 1 1 1 1 1\n"})
	got, err := proc.busy()
	if want := 160 * tick; err != nil || got != want {
		t.Errorf("busy = %s, %v; want %s", got, err, want)
	}
	if got, err := fakeProc(t, map[string]string{"stat": "cpu 1 2 3\n"}).busy(); err == nil {
		t.Errorf("busy of a short line = %s; want an error", got)
	}
}

func TestMachineDescription(t *testing.T) {
	proc := fakeProc(t, map[string]string{
		"cpuinfo": "processor\t: 0\nmodel name\t: Example CPU @ 3.00GHz\nprocessor\t: 1\nmodel name\t: Other\n",
		"loadavg": "0.42 0.30 0.10 2/345 6789\n",
	})
	if got, want := proc.processor(), "Example CPU @ 3.00GHz"; got != want {
		t.Errorf("processor = %q; want %q", got, want)
	}
	if got, want := proc.loadAverage(), "0.42"; got != want {
		t.Errorf("loadAverage = %q; want %q", got, want)
	}
	if got := fakeProc(t, nil).processor(); got != "" {
		t.Errorf("processor of a machine that names none = %q; want \"\"", got)
	}
}

func TestHostProcKnowsThisProcess(t *testing.T) {
	self, err := hostProc.process(os.Getpid())
	if err != nil || self.parent != os.Getppid() {
		t.Errorf("process = %+v, %v; want parent %d", self, err, os.Getppid())
	}
	if size, err := hostProc.memory(os.Getpid()); err != nil || size.now > size.peak {
		t.Errorf("memory = %+v, %v; want no more now than at the peak", size, err)
	}
	if busy, err := hostProc.busy(); err != nil || busy < self.cpu {
		t.Errorf("busy = %s, %v; want at least our own %s", busy, err, self.cpu)
	}
}
