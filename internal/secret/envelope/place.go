package envelope

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
)

// A stored value that begins with reserved was written by Skald. It is an envelope, the mark of
// erased content, or an escape, which is a client's JSON that looks like one of these, nested one
// level deeper. Clients' JSON is canonical, so checking its first bytes is sufficient. Without
// encryption, this check is the only cost of this package.
const (
	reserved = `{"$skald_`
	sealed   = `{"$skald_enc":"`
	escaped  = `{"$skald_raw":`
	erased   = `{"$skald_erased":true}` // the content was erased; saga.ErasedContent
	version  = "v1"
)

// IsSealed reports whether stored, which is canonical JSON, is an envelope.
func IsSealed(stored []byte) bool { return bytes.HasPrefix(stored, []byte(sealed)) }

// Sealer seals and opens the values of one saga. It is not safe for concurrent use.
type Sealer struct {
	ring         *Keyring
	tenant, saga uuid.UUID

	id   string // of the master key that aead is derived from; "": none yet
	aead cipher.AEAD
}

// Field identifies a value of a saga. Step, Action and Attempt are zero except for the values of a
// call.
type Field struct {
	Name    string
	Step    int
	Action  string
	Attempt int
}

// String describes the field in error messages.
func (f Field) String() string {
	if f.Action == "" {
		return f.Name
	}
	return fmt.Sprintf("%s of %s %d of step %d", f.Name, f.Action, f.Attempt, f.Step)
}

// Seals reports whether Seal will encrypt.
func (p *Sealer) Seals() bool { return p.ring.Seals() }

// Key returns the id of the key that seals, or "" if there is none.
func (p *Sealer) Key() string { return p.ring.Current() }

// Seal returns the stored form of plain, which is canonical JSON, for a field of the saga. The
// result is canonical JSON as well. For nil it returns nil, because the absence of a value is not
// secret.
func (p *Sealer) Seal(field Field, plain []byte) ([]byte, error) {
	switch {
	case plain == nil:
		return nil, nil
	case p.ring.Seals():
	case bytes.HasPrefix(plain, []byte(reserved)):
		return append(append([]byte(escaped), plain...), '}'), nil
	default:
		return plain, nil
	}
	m := &p.ring.masters[0]
	if err := p.use(m); err != nil {
		return nil, err
	}
	box := p.aead.Seal(nil, nil, plain, p.about(field)) // the nonce is random and comes first
	out := make([]byte, 0, len(sealed)+len(version)+len(m.id)+base64.RawStdEncoding.EncodedLen(len(box))+4)
	out = append(
		append(append(append(out, sealed+version+"."...), m.id...), '.'),
		base64.RawStdEncoding.AppendEncode(nil, box)...)
	return append(out, `"}`...), nil
}

// Open returns the plain value of a stored field of the saga, given as canonical JSON.
// The error is ErrUnreadable and contains no content.
func (p *Sealer) Open(field Field, stored []byte) ([]byte, error) {
	if !bytes.HasPrefix(stored, []byte(reserved)) || bytes.Equal(stored, []byte(erased)) {
		return stored, nil
	}
	if rest, ok := bytes.CutPrefix(stored, []byte(escaped)); ok {
		if plain, ended := bytes.CutSuffix(rest, []byte("}")); ended && json.Valid(plain) {
			return plain, nil
		}
	}
	rest, ok := bytes.CutPrefix(stored, []byte(sealed))
	rest, ended := bytes.CutSuffix(rest, []byte(`"}`))
	parts := bytes.Split(rest, []byte("."))
	if !ok || !ended || len(parts) != 3 || string(parts[0]) != version {
		return nil, p.unreadable(field, "its format is unknown")
	}
	m := p.ring.find(string(parts[1]))
	if m == nil {
		return nil, p.unreadable(field, "its key is not configured")
	}
	box, err := base64.RawStdEncoding.Strict().AppendDecode(nil, parts[2])
	if err != nil {
		return nil, p.unreadable(field, "it was tampered with")
	}
	if err := p.use(m); err != nil {
		return nil, err
	}
	plain, err := p.aead.Open(nil, nil, box, p.about(field))
	if err != nil {
		return nil, p.unreadable(field, "it was tampered with, or belongs to another record")
	}
	return plain, nil
}

// about returns the additional authenticated data of a value.
func (p *Sealer) about(field Field) []byte {
	b := append(p.ids(), field.Name...)
	b = strconv.AppendInt(append(b, ' '), int64(field.Step), 10)
	b = append(append(b, ' '), field.Action...)
	return strconv.AppendInt(append(b, ' '), int64(field.Attempt), 10)
}

func (p *Sealer) ids() []byte {
	b := make([]byte, 0, 128)
	return append(append(b, p.tenant[:]...), p.saga[:]...)
}

// use derives the saga's key from m, unless aead already contains it.
func (p *Sealer) use(m *master) error {
	if p.id == m.id {
		return nil
	}
	key, err := hkdf.Expand(sha256.New, m.prk, "seal"+string(p.ids()), 32)
	if err != nil {
		return fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return fmt.Errorf("derive a key: %w", err)
	}
	if p.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return fmt.Errorf("derive a key: %w", err)
	}
	p.id = m.id
	return nil
}

func (p *Sealer) unreadable(field Field, why string) error {
	return fmt.Errorf("saga %s, %s: %w: %s", p.saga, field, ErrUnreadable, why)
}

// ErrUnreadable is wrapped by every error of Sealer.Open. It means that the value was changed, was
// sealed for another place, or was sealed with a key that is missing.
var ErrUnreadable = errors.New("encrypted content cannot be decrypted")

// SealerFor returns the Sealer of a saga. It derives a key only when it is used.
func (k *Keyring) SealerFor(tenant, saga uuid.UUID) Sealer {
	return Sealer{ring: k, tenant: tenant, saga: saga}
}
