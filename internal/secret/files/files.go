// Package files keeps values that are read from files, such as passwords, certificates and keys, up
// to date when the files change (invariant T16). A program that rewrites them, such as a Vault
// agent, need not notify Skald.
package files

import (
	"os"
	"slices"
	"sync"
	"time"
)

// lookEvery is the minimum interval between two checks of the files by Current.
const lookEvery = time.Second

// Watched is a value that was read from files and that is read again when one of them has changed.
// Its methods are safe for concurrent use.
type Watched[T any] struct {
	paths  []string
	load   func() (T, error)
	failed func(error)

	mu     sync.Mutex
	value  T         // guarded by mu, like the following fields
	stamps []version // versions of the files from which value was read
	looked time.Time
}

// version detects new content of a file without reading the file.
type version struct {
	modified time.Time
	size     int64
}

// Watch reads a value with load, which reads the files at paths. Empty paths are ignored. failed is
// called with the error of every later failed read by Current. If it is nil, it is not called.
func Watch[T any](load func() (T, error), failed func(error), paths ...string) (*Watched[T], error) {
	if failed == nil {
		failed = func(error) {}
	}
	w := &Watched[T]{
		load: load, failed: failed, paths: slices.DeleteFunc(paths, func(p string) bool { return p == "" }),
	}
	stamps, _ := w.look() // load reports a missing file with a better error
	return w, w.read(stamps)
}

// Current returns the value or, while the files are missing or invalid, the last valid one. It
// checks for changes at most once a second.
func (w *Watched[T]) Current() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.looked) >= lookEvery {
		w.looked = now
		if stamps, _ := w.look(); !slices.Equal(stamps, w.stamps) {
			if err := w.read(stamps); err != nil {
				w.failed(err)
			}
		}
	}
	return w.value
}

// Look checks for changes immediately. It reads the files if one of them has changed, or if again
// returns true for the current value. It returns the value and whether the files were read. If they
// could not be read, it returns an error and the last valid value.
func (w *Watched[T]) Look(again func(T) bool) (value T, read bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stamps, err := w.look()
	if err != nil || slices.Equal(stamps, w.stamps) && !again(w.value) {
		return w.value, false, err
	}
	err = w.read(stamps)
	return w.value, err == nil, err
}

// look returns the versions of the files, with a zero version for an inaccessible file, and the
// error for the first such file.
func (w *Watched[T]) look() (stamps []version, err error) {
	for _, path := range w.paths {
		var v version
		if info, failure := os.Stat(path); failure == nil {
			v = version{info.ModTime(), info.Size()}
		} else if err == nil {
			err = failure
		}
		stamps = append(stamps, v)
	}
	return stamps, err
}

// read reads the value. stamps were taken before that, so that the files are read once more if they
// change in between.
func (w *Watched[T]) read(stamps []version) error {
	value, err := w.load()
	if err != nil {
		return err
	}
	w.value, w.stamps = value, stamps
	return nil
}
