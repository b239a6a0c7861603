package ledger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 123456789, time.UTC)

func sample(seq int64) Entry {
	return Entry{
		Seq: seq, Time: noon, Participant: "payments", Saga: "s1", Step: "charge", Action: Execute,
		Attempt: 1, Key: "s1/charge/execute", Fence: 7, BodySHA256: "ab", Effect: Applied, Reply: Sent,
		Status: 200, Answer: []byte(`{"charge_id":"ch_1"}`),
	}
}

func mustOpen(t *testing.T, path string) (*Book, []Entry) {
	t.Helper()
	b, entries, err := Open(path)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b, entries
}

func TestWhatWasAppendedIsThereAfterReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	b, _ := mustOpen(t, path)
	want := []Entry{sample(b.Arrive()), sample(b.Arrive())}
	for _, e := range want {
		if err := b.Append(e)(); err != nil {
			t.Fatalf("Append: %v", err)
		}
	}
	live, err := Read(path)
	if diff := cmp.Diff(want, live); err != nil || diff != "" {
		t.Errorf("Read of the open ledger: %v\n%s", err, diff)
	}
	if err := b.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	again, stored := mustOpen(t, path)
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("entries after reopening:\n%s", diff)
	}
	if got := again.Arrive(); got != 3 {
		t.Errorf("next seq after reopening = %d, want 3", got)
	}
}

func TestATornLastLineIsCutOff(t *testing.T) {
	for _, tt := range []struct{ name, tail string }{
		{"half a line", `{"seq":2,"saga":"s`},
		{"a line without its newline", `{"seq":2,"saga":"s1"}`},
		{"blocks that were allocated and never written", "\x00\x00\x00\x00"},
		{"a last line that is no JSON", "\x00\x00\x00\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.jsonl")
			b, _ := mustOpen(t, path)
			if err := b.Append(sample(1))(); err != nil {
				t.Fatal(err)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			appendText(t, path, tt.tail)

			if got, err := Read(path); err != nil || len(got) != 1 {
				t.Errorf("Read = %d entries, %v; want 1", len(got), err)
			}
			again, entries := mustOpen(t, path)
			if len(entries) != 1 {
				t.Fatalf("Open found %d entries, want 1", len(entries))
			}
			if err := again.Append(sample(2))(); err != nil {
				t.Fatal(err)
			}
			got, err := Read(path)
			if diff := cmp.Diff([]Entry{sample(1), sample(2)}, got); err != nil || diff != "" {
				t.Errorf("after appending behind the cut: %v\n%s", err, diff)
			}
		})
	}
}

func TestABrokenLineInTheMiddleIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	appendText(t, path, "{\"seq\":1}\n{\"seq\":\n{\"seq\":3}\n")
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("Read error = %v, want one that names line 2", err)
	}
	if b, _, err := Open(path); err == nil {
		_ = b.Close()
		t.Error("Open accepted the ledger")
	}
	if raw, err := os.ReadFile(path); err != nil || len(raw) != 28 {
		t.Errorf("the refused ledger has %d bytes, %v; want its 28 untouched", len(raw), err)
	}
}

func appendText(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// slowDisk is a file whose Sync announces itself on syncing and then waits for a result.
type slowDisk struct {
	mu      sync.Mutex
	written bytes.Buffer
	syncing chan struct{}
	result  chan error
}

func newSlowDisk() *slowDisk {
	return &slowDisk{syncing: make(chan struct{}), result: make(chan error)}
}

func (d *slowDisk) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.written.Write(p)
}

func (d *slowDisk) lines() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Count(d.written.Bytes(), []byte{'\n'})
}

func (d *slowDisk) Sync() error  { d.syncing <- struct{}{}; return <-d.result }
func (d *slowDisk) Close() error { return nil }

func TestOneFsyncServesAllThatCameDuringTheOneBefore(t *testing.T) {
	disk := newSlowDisk()
	b := newBook(disk)
	first := b.Append(sample(1))
	<-disk.syncing
	rest := make([]func() error, 50)
	for i := range rest {
		rest[i] = b.Append(sample(int64(i) + 2))
	}
	if got := disk.lines(); got != 1 {
		t.Errorf("%d lines written during the first fsync, want 1", got)
	}
	disk.result <- nil
	if err := first(); err != nil {
		t.Fatalf("first entry: %v", err)
	}
	<-disk.syncing
	if got := disk.lines(); got != 51 {
		t.Errorf("%d lines written by the second fsync, want all 51", got)
	}
	disk.result <- nil
	for _, wait := range rest {
		if err := wait(); err != nil {
			t.Fatalf("entry of the second batch: %v", err)
		}
	}
	if err := b.Close(); err != nil { // would hang in a third Sync
		t.Errorf("Close: %v", err)
	}
}

func TestAnEntryIsNotReportedBeforeItsFsync(t *testing.T) {
	disk := newSlowDisk()
	b := newBook(disk)
	wait := b.Append(sample(1))
	reported := make(chan error, 1)
	go func() { reported <- wait() }()
	<-disk.syncing
	select {
	case err := <-reported:
		t.Errorf("reported %v while the fsync was under way", err)
	default:
	}
	disk.result <- nil
	if err := <-reported; err != nil {
		t.Errorf("after the fsync: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestAFailedFsyncClosesTheLedger(t *testing.T) {
	disk := newSlowDisk()
	b := newBook(disk)
	broken := errors.New("medium error")
	first := b.Append(sample(1))
	<-disk.syncing
	second := b.Append(sample(2))
	disk.result <- broken
	for i, wait := range []func() error{first, second, b.Append(sample(3))} {
		if err := wait(); !errors.Is(err, broken) {
			t.Errorf("entry %d: %v, want %v", i+1, err, broken)
		}
	}
	if got := disk.lines(); got != 1 {
		t.Errorf("%d lines written, want nothing after the failure", got)
	}
	if err := b.Close(); !errors.Is(err, broken) {
		t.Errorf("Close: %v, want %v", err, broken)
	}
}

func TestCloseStoresWhatIsWaitingAndRefusesTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	b, _ := mustOpen(t, path)
	waits := make([]func() error, 20)
	for i := range waits {
		waits[i] = b.Append(sample(b.Arrive()))
	}
	if err := b.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			t.Errorf("entry appended before Close: %v", err)
		}
	}
	if err := b.Append(sample(99))(); !errors.Is(err, ErrClosed) {
		t.Errorf("append after Close: %v, want ErrClosed", err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if got, err := Read(path); err != nil || len(got) != 20 {
		t.Errorf("Read = %d entries, %v; want 20", len(got), err)
	}
}

func TestEntriesFromManyGoroutinesAreAllStoredOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	b, _ := mustOpen(t, path)
	const writers, each = 16, 20
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if err := b.Append(sample(b.Arrive()))(); err != nil {
					t.Errorf("Append: %v", err)
				}
			}
		})
	}
	wg.Wait()
	entries, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	for _, e := range entries {
		seen[e.Seq] = true
	}
	if len(entries) != writers*each || len(seen) != writers*each {
		t.Errorf("%d entries with %d seqs, want %d of both", len(entries), len(seen), writers*each)
	}
}
