package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// ErrClosed is returned to a caller waiting for an entry if the book was closed before the entry
// was appended. The entry is not stored.
var ErrClosed = errors.New("the ledger is closed")

// Book is a ledger file that is open for appending. One fsync covers all entries that arrived
// during the previous fsync. There is no timer, so a single entry waits only for its own fsync. A
// Book is safe for concurrent use. Only one process may have a ledger open.
type Book struct {
	file    file
	arrived atomic.Int64
	wake    chan struct{} // holds one token if there is something to flush
	stopped chan struct{} // closed when the flusher has ended

	mu     sync.Mutex // guards the fields below and sends on wake
	next   *batch     // collects entries while the flusher writes the previous batch
	closed bool
	failed error // the first failed write or fsync; never cleared
}

// file is the part of *os.File that a Book needs.
type file interface {
	io.WriteCloser
	Sync() error
}

// batch is the set of entries that one fsync makes durable.
type batch struct {
	lines bytes.Buffer
	done  chan struct{} // closed once err is final
	err   error
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

// Open opens the ledger at path, creating it if it does not exist, and returns its entries in file
// order. A torn last line, left by a crash during a write, is cut off: its call was never answered.
// Any other line that cannot be read is an error. The directory must exist.
func Open(path string) (*Book, []Entry, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the ledger: %w", err)
	}
	entries, err := recoverEntries(f)
	if err == nil {
		err = syncDirectory(filepath.Dir(path))
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open the ledger %s: %w", path, err), f.Close())
	}
	b := newBook(f)
	for _, e := range entries {
		b.arrived.Store(max(b.arrived.Load(), e.Seq))
	}
	return b, entries, nil
}

// recoverEntries reads f and cuts a torn tail off it.
func recoverEntries(f *os.File) ([]Entry, error) {
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	entries, good, err := parse(raw)
	if err != nil || good == len(raw) {
		return entries, err
	}
	if err := f.Truncate(int64(good)); err != nil {
		return nil, fmt.Errorf("cut off the torn line: %w", err)
	}
	return entries, f.Sync()
}

// syncDirectory makes a newly created file in dir survive a power failure.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func newBook(f file) *Book {
	b := &Book{file: f, next: newBatch(), wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	go b.run()
	return b
}

// Arrive returns the Seq for a call that has just come in: one more than the
// highest given out or stored so far.
func (b *Book) Arrive() int64 { return b.arrived.Add(1) }

// Append queues e behind all earlier entries and returns at once. wait returns nil once e and all
// entries before it are on disk. An error means that e may or may not be stored and that the book
// accepts no more entries: after a failed fsync the content of the file is unknown.
func (b *Book) Append(e Entry) (wait func() error) {
	line, err := json.Marshal(e)
	if err != nil {
		return func() error { return fmt.Errorf("encode the ledger entry: %w", err) }
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return func() error { return ErrClosed }
	}
	mine := b.next
	mine.lines.Write(line)
	mine.lines.WriteByte('\n')
	select {
	case b.wake <- struct{}{}:
	default: // the flusher already has a token and will find the line
	}
	return func() error {
		<-mine.done
		return mine.err
	}
}

// Close stores the appended entries and closes the file. A second Close does nothing.
func (b *Book) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	close(b.wake)
	b.mu.Unlock()
	<-b.stopped
	return errors.Join(b.failed, b.file.Close())
}

func (b *Book) run() {
	defer close(b.stopped)
	for range b.wake {
		b.flush()
	}
	b.flush()
}

func (b *Book) flush() {
	b.mu.Lock()
	full, err := b.next, b.failed
	b.next = newBatch()
	b.mu.Unlock()

	if err == nil && full.lines.Len() > 0 {
		if err = b.store(full.lines.Bytes()); err != nil {
			b.mu.Lock()
			b.failed = err
			b.mu.Unlock()
		}
	}
	full.err = err
	close(full.done)
}

func (b *Book) store(lines []byte) error {
	if _, err := b.file.Write(lines); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	if err := b.file.Sync(); err != nil {
		return fmt.Errorf("fsync the ledger: %w", err)
	}
	return nil
}

// Read returns the entries of the ledger at path in file order. The ledger may be open elsewhere:
// an incomplete last line is left out. Any other line that cannot be read is an error.
func Read(path string) ([]Entry, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	entries, _, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("read the ledger %s: %w", path, err)
	}
	return entries, nil
}

// parse returns the entries of raw and the length of the part that contains them. A line counts
// only with its newline, because a batch is durable only as a whole. A last line that is not an
// entry is torn.
func parse(raw []byte) (entries []Entry, good int, err error) {
	for number := 1; good < len(raw); number++ {
		line, rest, whole := bytes.Cut(raw[good:], []byte{'\n'})
		if !whole {
			return entries, good, nil
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			if len(rest) == 0 {
				return entries, good, nil
			}
			return nil, 0, fmt.Errorf("line %d: %w", number, err)
		}
		entries = append(entries, e)
		good += len(line) + 1
	}
	return entries, good, nil
}
