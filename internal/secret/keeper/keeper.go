// Package keeper keeps secrets from files and Vault up to date while the program runs, so that a
// rotation needs no restart. No caller waits for Vault, because secrets in Vault are read in the
// background, once a minute. A file is read again within half a minute after it has changed.
//
// Files, each on top of those before it: value, keeper.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-saga/skald/internal/loop"
	"github.com/skald-saga/skald/internal/secret/credentials"
)

// Source is the location of a secret: a file, or a key of a secret in Vault.
type Source struct {
	Label string // for the log
	File  string // "": in Vault
	Path  string // its API path in Vault
	Key   string
}

// Kind returns the kind of the source: file or vault.
func (s *Source) Kind() string {
	if s.File != "" {
		return "file"
	}
	return "vault"
}

// Config configures a Keeper.
type Config struct {
	Sources []Source
	// Vault reads a secret from Vault. It is required if any source is in Vault.
	Vault func(ctx context.Context, path string) (map[string]any, error)
	// MaxAge is how long a value may be used if it cannot be read again.
	MaxAge time.Duration
	// Observe is called after every read of a source, with nil if the read succeeded. If Observe is
	// nil, it is not called.
	Observe func(source int, err error)
	Log     *slog.Logger
}

// Keeper holds the values of its sources. It is safe for concurrent use.
type Keeper struct {
	cfg     Config
	held    []held
	version atomic.Int64
}

// held is the current knowledge about one source.
type held struct {
	mu       sync.Mutex
	value    string // guarded by mu, like the following fields
	before   string // the previous value
	at       time.Time
	failure  error // error of the last read
	looked   time.Time
	modified time.Time // modification time of the file when it was read
	size     int64
	told     time.Time // when failure was last logged; zero: there is none
}

// State is the state of a source as shown to people.
type State struct {
	Kind     string
	Readable bool      // whether the last read succeeded
	ReadAt   time.Time // time of the last successful read; zero: none yet
	Why      string    // why it is not readable, without the path of the source
}

// These are the intervals at which sources are checked.
const (
	lookEvery  = time.Second      // for changes of a file, when its value is requested
	readEvery  = 30 * time.Second // between two rounds
	retryEvery = 5 * time.Second  // between two rounds, while a source cannot be read
	tellEvery  = 10 * time.Minute // between two log messages, while a source cannot be read
)

// New returns a keeper that has no values until its first Round.
func New(cfg Config) *Keeper {
	if cfg.Observe == nil {
		cfg.Observe = func(int, error) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Keeper{cfg: cfg, held: make([]held, len(cfg.Sources))}
}

// Run reads all sources repeatedly until ctx ends. The first read happens after a while.
func (k *Keeper) Run(ctx context.Context) {
	for ok := k.readable(); ; {
		wait := readEvery
		if !ok {
			wait = retryEvery
		}
		if !loop.Sleep(ctx, loop.Jittered(wait)) {
			return
		}
		ok = k.Round(ctx)
	}
}

// Round reads all sources, and reports whether it succeeded.
func (k *Keeper) Round(ctx context.Context) bool {
	read := map[string]struct {
		data map[string]any
		err  error
	}{}
	var down error // Vault does not answer, so its other paths are not tried in this round
	for i := range k.cfg.Sources {
		s := &k.cfg.Sources[i]
		if s.File != "" {
			k.held[i].mu.Lock()
			k.readFile(i)
			k.held[i].mu.Unlock()
			continue
		}
		got, known := read[s.Path]
		if !known {
			if got.err = down; down == nil {
				got.data, got.err = k.cfg.Vault(ctx, s.Path)
			}
			if ctx.Err() != nil {
				return false
			}
			if got.err != nil && !answered(got.err) {
				down = got.err
			}
			read[s.Path] = got
		}
		value, err := "", got.err
		if err == nil {
			value, err = valueAt(got.data, s.Key)
		}
		k.held[i].mu.Lock()
		k.set(i, value, err)
		k.held[i].mu.Unlock()
	}
	return k.readable()
}

func (k *Keeper) readable() bool { return k.Unreadable() == 0 }

// Unreadable returns the number of sources whose last read failed.
func (k *Keeper) Unreadable() (n int) {
	for i := range k.held {
		if !k.State(i).Readable {
			n++
		}
	}
	return n
}

// Value returns the value of a source. If there is no usable value, the error gives the reason,
// without the path of the source.
func (k *Keeper) Value(source int) (string, error) {
	h := &k.held[source]
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if k.cfg.Sources[source].File != "" && now.Sub(h.looked) >= lookEvery {
		if h.looked = now; h.failure != nil || k.changed(source) {
			k.readFile(source)
		}
	}
	switch {
	case h.at.IsZero() && h.failure == nil:
		return "", errors.New("has not been read yet")
	case h.at.IsZero():
		return "", errors.New(why(h.failure))
	case now.Sub(h.at) > k.cfg.MaxAge && h.failure != nil:
		return "", fmt.Errorf("was last read at %s: %s", h.at.UTC().Format(time.RFC3339), why(h.failure))
	}
	return h.value, nil
}

// Seen returns the current and the previous value of a source, as far as they are known.
func (k *Keeper) Seen(source int) []string {
	h := &k.held[source]
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc([]string{h.value, h.before}, func(v string) bool { return v == "" })
}

// Version changes whenever the result of Seen has changed.
func (k *Keeper) Version() int64 { return k.version.Load() }

// State returns the state of a source.
func (k *Keeper) State(source int) State {
	h := &k.held[source]
	h.mu.Lock()
	defer h.mu.Unlock()
	s := State{Kind: k.cfg.Sources[source].Kind(), Readable: h.failure == nil && !h.at.IsZero(), ReadAt: h.at}
	switch {
	case h.failure != nil:
		s.Why = why(h.failure)
	case h.at.IsZero():
		s.Why = "has not been read yet"
	}
	return s
}

// changed reports whether the file differs from the one that was read.
func (k *Keeper) changed(i int) bool {
	info, err := os.Stat(k.cfg.Sources[i].File)
	return err != nil || !info.ModTime().Equal(k.held[i].modified) || info.Size() != k.held[i].size
}

// readFile reads a file. It checks the file's version before reading, so that the file is read once
// more if it changes in between. The caller holds the mutex of the source.
func (k *Keeper) readFile(i int) {
	h, file := &k.held[i], k.cfg.Sources[i].File
	if info, err := os.Stat(file); err == nil {
		h.modified, h.size = info.ModTime(), info.Size()
	}
	value, err := credentials.ReadSecret(file)
	if err == nil {
		err = mistake(value)
	}
	k.set(i, value, err)
}

// set stores the result of a read. The caller holds the mutex of the source.
func (k *Keeper) set(i int, value string, err error) {
	h, label := &k.held[i], slog.String("secret", k.cfg.Sources[i].Label)
	k.cfg.Observe(i, err)
	first := h.at.IsZero() && h.told.IsZero()
	if h.failure = err; err != nil {
		if now := time.Now(); now.Sub(h.told) >= tellEvery {
			h.told = now
			k.cfg.Log.Warn("a secret of a participant cannot be read", label, slog.String("source", k.cfg.Sources[i].Kind()),
				slog.Any("error", err), slog.Bool("last_value_in_use", !h.at.IsZero() && time.Since(h.at) <= k.cfg.MaxAge))
		}
		return
	}
	if !h.told.IsZero() || value != h.value && !first {
		k.cfg.Log.Info("a secret of a participant was read again", label, slog.Bool("changed", value != h.value))
	}
	if h.at, h.told = time.Now(), (time.Time{}); value == h.value {
		return
	}
	h.value, h.before = value, h.value
	k.version.Add(1)
}
