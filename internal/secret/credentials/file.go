package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// maxFile is, in bytes, far above any password; it prevents reading a wrong path, such
// as a device, for ever.
const maxFile = 64 << 10

// File is a Source whose password is the content of a file without the trailing line
// ends: a mounted secret, or the output of a Vault agent. The file is read again when
// it has changed and when the server refuses the password (invariant T16). Open
// connections stay open: PostgreSQL checks the password once.
type File struct {
	path, user string
	observe    func(error)

	mu    sync.Mutex
	login Login   // guarded by mu
	stamp version // guarded by mu: of the file that login was read from
}

// version detects a new content of a file without reading it.
type version struct {
	modified time.Time
	size     int64
}

// NewFile reads the password of user from path, and fails when it is empty. An empty
// user uses that of the database address. observe is called after every later reading
// with its error; nil: not called.
func NewFile(path, user string, observe func(error)) (*File, error) {
	if observe == nil {
		observe = func(error) {}
	}
	f := &File{path: path, user: user, observe: observe}
	stamp, err := f.look()
	if err != nil {
		return nil, err
	}
	return f, f.read(stamp)
}

// Login returns the present password in the file. While the file is missing, empty or
// half written, it is the last password that was read.
func (f *File) Login(_ context.Context, refused Login) (Login, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stamp, err := f.look()
	if err == nil && (stamp != f.stamp || refused == f.login) {
		err = f.read(stamp)
		f.observe(err)
	} else if err != nil {
		f.observe(err)
	}
	return f.login, nil
}

// Current is true: a session outlives its password.
func (f *File) Current(Login) bool { return true }

func (f *File) look() (version, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return version{}, failure(err)
	}
	return version{info.ModTime(), info.Size()}, nil
}

// read stores the content of the file. stamp was taken before: after a change in
// between the file is read once more.
func (f *File) read(stamp version) error {
	content, err := ReadSecret(f.path)
	if err != nil {
		return err
	}
	f.login, f.stamp = Login{User: f.user, Password: content}, stamp
	return nil
}

// ReadSecret returns the content of a file that holds one secret, without the
// line ends after it. The error names no path and no content.
func ReadSecret(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", failure(err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	content = bytes.TrimRight(content, "\r\n")
	switch {
	case err != nil:
		return "", failure(err)
	case len(content) == 0:
		return "", errors.New("is empty")
	case len(content) > maxFile:
		return "", errors.New("is too large for a secret")
	}
	return string(content), nil
}

// failure is the reason why a file cannot be read, without its path.
func failure(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}
