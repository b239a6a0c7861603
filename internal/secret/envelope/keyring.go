// Package envelope encrypts stored JSON with AES-256-GCM and keys that are derived from a few
// master keys. The encrypted form is JSON as well.
//
// Master keys do not encrypt anything directly. Each saga of each tenant has its own key, the
// HKDF-SHA256 of the master key and both ids. Therefore only the master keys need to be stored, a
// value can be opened only where it was sealed, and a key seals only some dozens of values, so that
// random nonces practically never repeat.
package envelope

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// MasterKeyBytes is the length of a master key.
const MasterKeyBytes = 32

// Keyring holds the master keys. The first one is current and seals new values; all of them open
// values. A nil Keyring seals nothing and opens only unsealed values. It is safe for concurrent
// use.
type Keyring struct {
	masters  []master
	openOnly bool
}

// master is a master key that is ready for key derivation.
type master struct {
	id  string
	prk []byte
}

var keyID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// Parse reads master keys in the form ID:KEY, separated by commas or white space. ID consists of 1
// to 32 letters, digits, _ and -; KEY is 32 bytes in base64. For an empty text it returns nil. The
// error contains the position of the invalid entry and does not quote it.
func Parse(text string) (*Keyring, error) {
	entries := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
	switch {
	case text == "":
		return nil, nil
	case len(entries) == 0: // it was meant to contain keys, so it must not count as none
		return nil, errors.New("must have a key, ID:KEY")
	}
	ring := &Keyring{}
	for i, entry := range entries {
		id, encoded, ok := strings.Cut(entry, ":")
		if !ok || !keyID.MatchString(id) {
			return nil, fmt.Errorf("entry %d must be ID:KEY, where ID is 1 to 32 letters, digits, _ and -", i+1)
		}
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(key) != MasterKeyBytes {
			return nil, fmt.Errorf("entry %d must have a key of 32 bytes in base64, as openssl rand -base64 32 prints it", i+1)
		}
		if ring.find(id) != nil {
			return nil, fmt.Errorf("entry %d has the id of an earlier entry", i+1)
		}
		prk, err := hkdf.Extract(sha256.New, key, []byte("skald envelope v1"))
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
		ring.masters = append(ring.masters, master{id, prk})
	}
	return ring, nil
}

// OpenOnly returns a Keyring with the same keys that seals nothing.
func (k *Keyring) OpenOnly() *Keyring {
	if k == nil {
		return nil
	}
	return &Keyring{masters: k.masters, openOnly: true}
}

// Seals reports whether Seal will encrypt.
func (k *Keyring) Seals() bool { return k != nil && !k.openOnly }

// Current returns the id of the key that seals, or "" if there is none.
func (k *Keyring) Current() string {
	if !k.Seals() {
		return ""
	}
	return k.masters[0].id
}

// Check returns a 32-byte check value that identifies a master key and reveals nothing about it. ok
// is false if no key has that id.
func (k *Keyring) Check(id string) (check []byte, ok bool) {
	m := k.find(id)
	if m == nil {
		return nil, false
	}
	check, err := hkdf.Expand(sha256.New, m.prk, "check", 32)
	return check, err == nil
}

func (k *Keyring) find(id string) *master {
	if k == nil {
		return nil
	}
	for i := range k.masters {
		if k.masters[i].id == id {
			return &k.masters[i]
		}
	}
	return nil
}
