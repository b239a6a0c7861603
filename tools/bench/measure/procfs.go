package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// procfs is a directory laid out like Linux's /proc.
type procfs string

const hostProc procfs = "/proc"

// tick is the unit of CPU times in /proc: USER_HZ is 100 wherever Go runs.
const tick = 10 * time.Millisecond

// process is what the benchmark reads of one process.
type process struct {
	name   string
	parent int
	cpu    time.Duration // the user and system time of the process itself
	reaped time.Duration // that of its ended children
}

// process reads /proc/<pid>/stat.
func (p procfs) process(pid int) (process, error) {
	raw, err := os.ReadFile(p.path(strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	found, err := parseProcess(string(raw))
	if err != nil {
		return process{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	return found, nil
}

// parseProcess reads the one line of a stat file. The name is in parentheses
// and may itself hold spaces and parentheses, so the last one ends it.
func parseProcess(line string) (process, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return process{}, fmt.Errorf("no process name in %q", line)
	}
	// Fields from the third on: state, parent, …, with utime, stime, cutime and
	// cstime at positions 14 to 17 of the line.
	fields := strings.Fields(line[end+1:])
	if len(fields) < 15 {
		return process{}, fmt.Errorf("only %d fields after the name in %q", len(fields), line)
	}
	number := func(i int) (int64, error) { return strconv.ParseInt(fields[i], 10, 64) }
	parent, err1 := number(1)
	user, err2 := number(11)
	system, err3 := number(12)
	childUser, err4 := number(13)
	childSystem, err5 := number(14)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return process{}, err
	}
	return process{
		name:   line[open+1 : end],
		parent: int(parent),
		cpu:    time.Duration(user+system) * tick,
		reaped: time.Duration(childUser+childSystem) * tick,
	}, nil
}

// familyCPU is the CPU time of a process and its direct children, running and ended: a
// postmaster with all its backends.
func (p procfs) familyCPU(pid int) (time.Duration, error) {
	head, err := p.process(pid)
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(string(p))
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	total := head.cpu + head.reaped
	for _, entry := range entries {
		member, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		proc, err := p.process(member)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // ended since it was listed
		}
		if err != nil {
			return 0, err
		}
		if proc.parent == pid {
			total += proc.cpu + proc.reaped
		}
	}
	return total, nil
}

// memory is the resident size of a process, in bytes.
type memory struct {
	now, peak int64
}

// memory reads /proc/<pid>/status.
func (p procfs) memory(pid int) (memory, error) {
	raw, err := os.ReadFile(p.path(strconv.Itoa(pid), "status"))
	if err != nil {
		return memory{}, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	var m memory
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(line, ":")
		var field *int64
		switch key {
		case "VmRSS":
			field = &m.now
		case "VmHWM":
			field = &m.peak
		default:
			continue
		}
		kibibytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return memory{}, fmt.Errorf("read memory of process %d: %w", pid, err)
		}
		*field = kibibytes * 1024
	}
	if m.now == 0 || m.peak == 0 {
		return memory{}, fmt.Errorf("read memory of process %d: VmRSS or VmHWM missing", pid)
	}
	return m, nil
}

// busy is the time all cores together were not idle since the machine started.
func (p procfs) busy() (time.Duration, error) {
	raw, err := os.ReadFile(p.path("stat"))
	if err != nil {
		return 0, fmt.Errorf("read machine load: %w", err)
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	fields := strings.Fields(line)
	// cpu user nice system idle iowait irq softirq steal; guest times follow and
	// are already part of user and nice.
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("read machine load: unexpected first line %q", line)
	}
	var total int64
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read machine load: %w", err)
		}
		total += ticks
	}
	return time.Duration(total) * tick, nil
}

// processor is the model name of the first core, or "" if it is unknown.
func (p procfs) processor() string {
	raw, err := os.ReadFile(p.path("cpuinfo"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// loadAverage is the mean number of runnable processes of the last minute, or "" if it cannot
// be read: it only indicates other load on the machine.
func (p procfs) loadAverage() string {
	raw, err := os.ReadFile(p.path("loadavg"))
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(raw), " ")
	return first
}

func (p procfs) path(elements ...string) string {
	return filepath.Join(append([]string{string(p)}, elements...)...)
}
