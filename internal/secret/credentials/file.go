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

// maxFile is a size in bytes that is far above that of any password. It prevents endless reading if
// the path is wrong and names, for example, a device.
const maxFile = 64 << 10

// File is a Source whose password is the content of a file without the trailing line ends, such as
// a mounted secret or the output of a Vault agent. The file is read again when it has changed and
// when the server rejects the password (invariant T16). Open connections stay open, because
// PostgreSQL checks the password only once.
type File struct {
	user     string
	password *files.Watched[string]
	observe  func(error)
}

// NewFile reads the password of user from path. It fails if the password is empty. If user is
// empty, the user of the database address is used. observe is called after every later read with
// the error, or with nil if the read succeeded. If observe is nil, it is not called.
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

// Login returns the current password in the file. While the file is missing, empty or half written,
// it returns the last password that was read.
func (f *File) Login(_ context.Context, refused Login) (Login, error) {
	password, read, err := f.password.Look(func(last string) bool { return refused == Login{f.user, last} })
	if err != nil {
		f.observe(failure(err))
	} else if read {
		f.observe(nil)
	}
	return Login{User: f.user, Password: password}, nil
}

// Reread reads the file immediately, whether or not it has changed.
func (f *File) Reread() error {
	_, _, err := f.password.Look(func(string) bool { return true })
	return failure(err)
}

// Current returns true: a session outlives its password.
func (f *File) Current(Login) bool { return true }

// ReadSecret returns the content of a file that contains one secret, without trailing line ends.
// The error contains neither the path nor the content.
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
