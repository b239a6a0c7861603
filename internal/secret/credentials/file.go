package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/skald-saga/skald/internal/secret/files"
)

// maxFile is a size in bytes far above that of any password. It keeps a wrong path, such as a
// device, from being read forever.
const maxFile = 64 << 10

// File is a Source whose password is the content of a file without the trailing line ends: a
// mounted secret, or the output of a Vault agent. The file is read again when it has changed
// and when the server rejects the password (invariant T16). Open connections stay open:
// PostgreSQL checks the password once.
type File struct {
	user     string
	password *files.Watched[string]
	observe  func(error)
}

// NewFile reads the password of user from path, and fails when it is empty. An empty user uses
// that of the database address. observe is called with the error of every later reading, nil if
// it succeeded; nil: not called.
func NewFile(path, user string, observe func(error)) (*File, error) {
	if observe == nil {
		observe = func(error) {}
	}
	password, err := files.Watch(func() (string, error) { return ReadSecret(path) }, nil, path)
	if err != nil {
		return nil, err
	}
	return &File{user, password, observe}, nil
}

// Login returns the current password in the file, or the last one that was read while the file
// is missing, empty or half written.
func (f *File) Login(_ context.Context, refused Login) (Login, error) {
	password, read, err := f.password.Look(func(last string) bool { return refused == Login{f.user, last} })
	if err != nil {
		f.observe(failure(err))
	} else if read {
		f.observe(nil)
	}
	return Login{User: f.user, Password: password}, nil
}

// Reread reads the file now, whether or not it has changed.
func (f *File) Reread() error {
	_, _, err := f.password.Look(func(string) bool { return true })
	return failure(err)
}

// Current returns true: a session outlives its password.
func (f *File) Current(Login) bool { return true }

// ReadSecret returns the content of a file with one secret, without trailing line ends. The
// error contains neither path nor content.
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

// failure returns err without the path of the file.
func failure(err error) error {
	var p *fs.PathError
	if !errors.As(err, &p) {
		return err
	}
	return fmt.Errorf("cannot be read: %w", p.Err)
}
