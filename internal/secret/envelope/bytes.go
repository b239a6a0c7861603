package envelope

import (
	"bytes"
	"encoding/base64"
)

// Bytes and texts that are not JSON have the same two forms as JSON, under names of their own. The
// version indicates the encoding of the box: raw, or base64 for text columns.
const (
	reservedBytes = `$skald_`
	sealedBytes   = `$skald_enc:`
	escapedBytes  = `$skald_raw:`
	versionRaw    = "b1"
	versionText   = "t1"
)

// SealBytes is Seal for arbitrary bytes. The result is for a bytea column, and OpenBytes opens it.
// It returns nil only for nil.
func (p *Sealer) SealBytes(field Field, plain []byte) ([]byte, error) {
	return p.sealAs(versionRaw, field, plain)
}

// SealText is SealBytes for a text; its result is text as well. OpenBytes opens it.
func (p *Sealer) SealText(field Field, plain string) (string, error) {
	stored, err := p.sealAs(versionText, field, []byte(plain))
	return string(stored), err
}

func (p *Sealer) sealAs(form string, field Field, plain []byte) ([]byte, error) {
	switch {
	case plain == nil:
		return nil, nil
	case p.ring.Seals():
	case bytes.HasPrefix(plain, []byte(reservedBytes)):
		return append([]byte(escapedBytes), plain...), nil
	default:
		return plain, nil
	}
	m := &p.ring.masters[0]
	if err := p.use(m); err != nil {
		return nil, err
	}
	box := p.aead.Seal(nil, nil, plain, p.about(field)) // the nonce is random and comes first
	head := sealedBytes + form + "." + m.id + "."
	if form == versionText {
		return base64.RawStdEncoding.AppendEncode([]byte(head), box), nil
	}
	return append([]byte(head), box...), nil
}

// OpenBytes returns the input of SealBytes or SealText. The error is ErrUnreadable and contains
// no content.
func (p *Sealer) OpenBytes(field Field, stored []byte) ([]byte, error) {
	if !bytes.HasPrefix(stored, []byte(reservedBytes)) {
		return stored, nil
	}
	if plain, ok := bytes.CutPrefix(stored, []byte(escapedBytes)); ok {
		return plain, nil
	}
	rest, ok := bytes.CutPrefix(stored, []byte(sealedBytes))
	parts := bytes.SplitN(rest, []byte("."), 3)
	if !ok || len(parts) != 3 {
		return nil, p.unreadable(field, "its format is unknown")
	}
	box := parts[2]
	switch string(parts[0]) {
	case versionRaw:
	case versionText:
		var err error
		if box, err = base64.RawStdEncoding.Strict().AppendDecode(nil, parts[2]); err != nil {
			return nil, p.unreadable(field, "it was tampered with")
		}
	default:
		return nil, p.unreadable(field, "its format is unknown")
	}
	m := p.ring.find(string(parts[1]))
	if m == nil {
		return nil, p.unreadable(field, "its key is not configured")
	}
	if err := p.use(m); err != nil {
		return nil, err
	}
	// Not nil for an empty value, which differs from a missing one.
	plain, err := p.aead.Open([]byte{}, nil, box, p.about(field))
	if err != nil {
		return nil, p.unreadable(field, "it was tampered with, or belongs to another record")
	}
	return plain, nil
}
