package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Kinds of entries in a worker's journal.
const (
	didRegister = "registered" // Worker is its id from now on
	didClaim    = "claimed"
	didBegin    = "begin"  // the work begins: from now on it may have effects
	didEnd      = "end"    // the work has stopped; How says how it ended
	didIntend   = "intend" // it is about to report with Call
	didHear     = "heard"  // the response to Call, with Status and Code
	didLog      = "logged" // the chunk Seq was acknowledged
	didMeet     = "met"    // a response that must never occur
)

// entry is a line of a worker's journal. It is on disk before the worker performs or reports the
// recorded step.
type entry struct {
	Mono     int64     `json:"mono"` // monotonic clock of the machine in ns, shared by all processes
	At       time.Time `json:"at"`
	Kind     string    `json:"kind"`
	Worker   string    `json:"worker,omitempty"`
	Run      string    `json:"run,omitempty"`
	Job      string    `json:"job,omitempty"`
	Attempt  int       `json:"attempt,omitempty"`
	Token    string    `json:"token,omitempty"`
	Epoch    int64     `json:"epoch,omitempty"`
	Fencing  string    `json:"fencing,omitempty"` // the fencing token for other systems
	Since    int64     `json:"since,omitempty"`   // when its claim was sent
	Key      string    `json:"key,omitempty"`     // concurrency key
	How      string    `json:"how,omitempty"`
	Rude     bool      `json:"rude,omitempty"` // it ignores its time limit and cancellation
	Call     string    `json:"call,omitempty"`
	Outcome  string    `json:"outcome,omitempty"` // the state that the call requests
	Emits    string    `json:"emits,omitempty"`   // dedupe key of an event, or idempotency key of a run
	Status   int       `json:"status,omitempty"`
	Code     string    `json:"code,omitempty"`
	State    string    `json:"state,omitempty"` // state of the run in the response
	Replayed bool      `json:"replayed,omitempty"`
	Seq      int       `json:"seq,omitempty"`
	Text     string    `json:"text,omitempty"`

	process string // the process that wrote the journal
}

// fence identifies an attempt.
func (e *entry) fence() string { return fmt.Sprintf("%s/%d/%s/%d", e.Run, e.Attempt, e.Token, e.Epoch) }

// monotonic is the machine's monotonic clock in nanoseconds.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // it can't fail, because its arguments are constant
	}
	return t.Nano()
}

// journal is a worker's journal while it is being written.
type journal struct {
	mu   sync.Mutex
	file *os.File
}

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	return &journal{file: f}, err
}

// write returns once the entry is on disk. Without its journal a worker proves nothing, so the
// process exits if it can't write.
func (j *journal) write(e entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Mono, e.At = monotonic(), time.Now().UTC()
	line, err := json.Marshal(e)
	if err == nil {
		if _, err = j.file.Write(append(line, '\n')); err == nil {
			err = j.file.Sync()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "journal:", err)
		os.Exit(3)
	}
}

// readJournals returns the entries of all workers in dir, each worker's in order. The last line of
// a killed worker may be incomplete; the worker had not acted on it.
func readJournals(dir string) ([]entry, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			e := entry{process: filepath.Base(path)}
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				if bytes.HasSuffix(text, lines.Bytes()) {
					break
				}
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			all = append(all, e)
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return all, nil
}
