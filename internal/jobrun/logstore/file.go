package logstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/failpoint"
)

// unfinished is the directory of files that do not have their final name yet. Files older than
// staleAfter are leftovers of a crash.
const (
	unfinished = ".unfinished"
	staleAfter = 24 * time.Hour
)

// files stores objects in a directory. The operating system resolves every path within it
// (os.Root), so that neither .. nor a symbolic link leads outside.
type files struct{ root *os.Root }

func openFiles(u *url.URL) (*files, error) {
	if u.Host != "" && u.Host != "localhost" || u.RawQuery != "" || u.Fragment != "" || u.User != nil ||
		!filepath.IsAbs(u.Path) || path.Clean(u.Path) == "/" {
		return nil, errors.New("a file URL must consist of file:// and the absolute path of a directory")
	}
	if err := os.MkdirAll(u.Path, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory: %w", err)
	}
	root, err := os.OpenRoot(u.Path)
	if err != nil {
		return nil, fmt.Errorf("open the directory: %w", err)
	}
	f := &files{root}
	if err := f.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the directory: %w", err), root.Close())
	}
	return f, nil
}

// prepare checks that the directory is writable, and removes stale files.
func (f *files) prepare() error {
	if err := f.root.MkdirAll(unfinished, 0o700); err != nil {
		return err
	}
	probe, name, err := f.create()
	if err != nil {
		return err
	}
	if err := errors.Join(probe.Close(), f.root.Remove(name)); err != nil {
		return err
	}
	left, err := fs.ReadDir(f.root.FS(), unfinished)
	if err != nil {
		return err
	}
	for _, entry := range left {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = f.root.Remove(path.Join(unfinished, entry.Name())) // another process may be removing it as well
		}
	}
	return nil
}

func (f *files) create() (file *os.File, name string, err error) {
	name = path.Join(unfinished, uuid.NewString())
	file, err = f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return file, name, err
}

func (f *files) temp() (*os.File, error) {
	file, name, err := f.create()
	if err == nil {
		_ = f.root.Remove(name)
	}
	return file, err
}

// put follows F54: write, fsync, rename, and fsync every directory on the path. After a crash at
// any point, the object is either complete or absent.
func (f *files) put(ctx context.Context, key string, content *spool) (err error) {
	file, temp, err := f.create()
	if err != nil {
		return err
	}
	_, err = io.Copy(file, within{ctx, content.reader()})
	if err = errors.Join(err, file.Sync(), file.Close(), failpoint.Hit(failpoint.LogAfterWrite)); err == nil {
		if err = f.root.MkdirAll(path.Dir(key), 0o700); err == nil {
			err = f.root.Rename(temp, key)
		}
	}
	if err != nil {
		return errors.Join(err, f.root.Remove(temp))
	}
	if err := failpoint.Hit(failpoint.LogAfterRename); err != nil {
		return err
	}
	for dir := path.Dir(key); ; dir = path.Dir(dir) {
		if err := f.sync(dir); err != nil || dir == "." {
			return err
		}
	}
}

// sync makes the entries of a directory durable.
func (f *files) sync(dir string) error {
	d, err := f.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f *files) open(_ context.Context, key string) (io.ReadCloser, error) {
	info, err := f.root.Lstat(key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, gone()
	case err != nil:
		return nil, fmt.Errorf("open a stored log: %w", err)
	case !info.Mode().IsRegular(): // opening a pipe would block, and Skald creates no links
		return nil, fmt.Errorf("%w: it is not a regular file", ErrCorrupt)
	}
	file, err := f.root.Open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, gone()
	}
	if err != nil {
		return nil, fmt.Errorf("open a stored log: %w", err)
	}
	return file, nil
}

func (f *files) remove(_ context.Context, key string) error {
	err := f.root.Remove(key)
	if err == nil {
		err = f.sync(path.Dir(key))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete a stored log: %w", err)
	}
	return nil
}

func (f *files) clear(ctx context.Context, prefix string) error {
	dir, err := f.root.Open(path.Dir(prefix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for stored logs: %w", err)
	}
	names, err := dir.Readdirnames(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("look for stored logs: %w", err)
	}
	for _, name := range names {
		if key := path.Join(path.Dir(prefix), name); strings.HasPrefix(key, prefix) {
			if err := f.remove(ctx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *files) close() error { return f.root.Close() }
