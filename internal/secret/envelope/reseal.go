package envelope

import (
	"bytes"

	"github.com/google/uuid"
)

// Wrap seals a secret of the deployment with the first key, even if the keyring can otherwise only
// open values, because the secret must not be stored in plain form. Unwrap opens it. k must not be
// nil.
func (k *Keyring) Wrap(name string, secret []byte) ([]byte, error) {
	p := (&Keyring{masters: k.masters}).SealerFor(uuid.Nil, uuid.Nil)
	return p.SealBytes(Field{Name: name}, secret)
}

// Unwrap opens a result of Wrap, whichever key sealed it.
func (k *Keyring) Unwrap(name string, stored []byte) ([]byte, error) {
	p := k.SealerFor(uuid.Nil, uuid.Nil)
	return p.OpenBytes(Field{Name: name}, stored)
}

// First returns the id of the first key, even for a keyring that can only open values. It returns
// "" for nil.
func (k *Keyring) First() string {
	if k == nil {
		return ""
	}
	return k.masters[0].id
}

// Count returns the number of keys.
func (k *Keyring) Count() int {
	if k == nil {
		return 0
	}
	return len(k.masters)
}

// KeyOf returns the id of the key that sealed a stored value, or "" if the value is not sealed. The
// value is a result of Seal (in canonical form), SealBytes, SealText or Wrap.
func KeyOf(stored []byte) string {
	rest, ok := bytes.CutPrefix(stored, []byte(sealed))
	if !ok {
		if rest, ok = bytes.CutPrefix(stored, []byte(sealedBytes)); !ok {
			return ""
		}
	}
	parts := bytes.SplitN(rest, []byte("."), 3)
	if len(parts) != 3 {
		return ""
	}
	return string(parts[1])
}
