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

// maxFile is far above any password; it keeps a wrong path, such as a device,
// from being read for ever.
const maxFile = 64 << 10

// File is a Source whose password is the content of a file without the line
// ends after it: a mounted secret, or what a Vault agent writes. The file is
// read again when it has changed and when the server refuses the password
// (invariant T16). Connections that are open stay so: PostgreSQL asks for the
// password once.
type File struct {
	path, user string
	observe    func(error)

	mu    sync.Mutex
	login Login   // guarded by mu
	stamp version // guarded by mu: of the file that login was read from
}

// version tells one content of a file from the next without reading it.
type version struct {
	modified time.Time
	size     int64
}

// NewFile reads the password of user from path, and fails when it holds none.
// An empty user leaves the user to the database address. observe hears of every
// later reading and its error; nil: nobody does.
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

// Login returns the password of the file as it is now. While the file is
// missing, empty or half written, it is the last password that was read.
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

// read takes what the file holds. stamp was taken before: a change in between
// is read once more.
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

// failure is why a file cannot be read, without its path.
func failure(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}
