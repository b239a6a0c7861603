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

// ErrClosed is what waiting for an entry returns when the book was closed
// before the entry was appended. The entry is not stored.
var ErrClosed = errors.New("the ledger is closed")

// Book is a ledger file that is open for appending. One fsync serves all
// entries that came while the one before was under way; there is no timer, so
// a lone entry waits for its own fsync only. Safe for concurrent use. Only one
// process may have a ledger open.
type Book struct {
	file    file
	arrived atomic.Int64
	wake    chan struct{} // one token: there is something to flush
	stopped chan struct{} // closed when the flusher has ended

	mu     sync.Mutex // guards what follows, and sending on wake
	next   *batch     // gathers while the flusher writes the one before
	closed bool
	failed error // the first write or fsync that failed; final
}

// file is what a Book needs of an *os.File.
type file interface {
	io.WriteCloser
	Sync() error
}

// batch is what one fsync makes durable.
type batch struct {
	lines bytes.Buffer
	done  chan struct{} // closed once err is final
	err   error
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

// Open opens the ledger at path, creating it when there is none, and returns
// the entries it holds, in file order. A torn last line, left by a crash in the
// middle of a write, is cut off: its call was never answered. Any other line
// that cannot be read is an error. The directory must exist.
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

// syncDirectory makes a file that was just created in dir survive a power cut.
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

// Append puts e in line behind everything appended before it and returns at once. wait returns nil
// when e and all entries before it are on disk. An error means that e may or may not be stored and
// that the book takes no more: after a failed fsync the content of the file is unknown.
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
	default: // the flusher has a token already and will find the line
	}
	return func() error {
		<-mine.done
		return mine.err
	}
}

// Close stores what was appended, and closes the file. A second Close does
// nothing.
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

// Read returns the entries of the ledger at path in file order. It may be open
// elsewhere: a last line that is not complete yet is left out. Any other line
// that cannot be read is an error.
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

// parse returns the entries of raw and the length of the part that holds them.
// A line counts once its newline is there, since a batch is durable only as a
// whole; a last line that is not an entry is a torn one.
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
