package app

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/egress"
	"github.com/skald-saga/skald/internal/secret/credentials"
	"github.com/skald-saga/skald/internal/secret/files"
)

// reread is a setting whose files are reloaded without a restart.
type reread struct {
	setting string
	now     func() error // loads the files, even if they have not changed
}

// readAgain registers the files of a setting, which are then watched for changes.
func readAgain[T any](known *[]reread, setting string, w *files.Watched[T]) {
	*known = append(*known, reread{setting, func() error {
		_, _, err := w.Look(func(T) bool { return true })
		return err
	}})
}

// watchTLS returns a function that returns the current TLS configuration of a client, nil if no
// file is set.
func (n *node) watchTLS(section, cert, key, ca string) (func() *tls.Config, error) {
	if cert == "" && ca == "" {
		return nil, nil
	}
	setting := section + ".tls_*_file"
	from := egress.TLSFiles{Section: section, Cert: cert, Key: key, CA: ca}
	w, err := from.Watch(unreadable(n.opt.Log, setting))
	if err != nil {
		return nil, err
	}
	readAgain(&n.read, setting, w)
	return w.Current, nil
}

// signingKeys returns a function that returns the current keys for signing calls to participants,
// nil if there are none.
func (n *node) signingKeys() (func() [][]byte, error) {
	p := n.cfg.Participants
	if p.SigningSecretsFile == "" {
		keys, err := config.SigningKeys(string(p.SigningSecrets))
		if len(keys) == 0 {
			return nil, err
		}
		return func() [][]byte { return keys }, nil
	}
	const setting = "participants.signing_secrets_file"
	w, err := files.Watch(func() ([][]byte, error) {
		text, err := credentials.ReadSecret(p.SigningSecretsFile)
		if err != nil {
			return nil, err
		}
		return config.SigningKeys(text)
	}, unreadable(n.opt.Log, setting), p.SigningSecretsFile)
	if err != nil {
		return nil, fmt.Errorf("%s %w", setting, err)
	}
	readAgain(&n.read, setting, w)
	return w.Current, nil
}

// unreadable logs that the files of a setting have changed but cannot be read.
func unreadable(log *slog.Logger, setting string) func(error) {
	return func(err error) {
		log.Error("cannot read the changed files of a setting; the previous contents stay in use",
			slog.String("setting", setting), slog.Any("error", err))
	}
}
