package dlq

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// IdempotencyKey is the key under which a drive is sent. It consists of the lineage's id and
// generation, which are the same for every retry of the same content. Edited content is a different
// message, for which a target must not return the stored answer to the old one, so the key then
// ends in a digest of what is sent. The same content always has the same key, even in another retry
// or redrive.
func (d *Drive) IdempotencyKey() string {
	key := fmt.Sprintf("%s/%d", d.RootID, d.Generation)
	if tag := d.EditTag(); tag != "" {
		key += "/" + tag
	}
	return key
}

// EditTag returns 16 hexadecimal digits that identify the edited content of a letter, or "" if the
// original is sent.
func (d *Drive) EditTag() string {
	if d.Send.same(d.Content) {
		return ""
	}
	h := sha256.New()
	part := func(b []byte) { // prefixed with its length, so that parts cannot be confused
		n := int64(len(b))
		if b == nil {
			n = -1
		}
		_ = binary.Write(h, binary.BigEndian, n) // writing to a hash never fails
		h.Write(b)
	}
	h.Write(d.RootID[:])
	part(d.Send.Payload)
	part(d.Send.Key)
	for _, header := range d.Send.Headers {
		part([]byte(header.Name))
		part(header.Value)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// With returns the content with an edit applied. Nil members of the edit change nothing.
func (c Content) With(edit Content) Content {
	if edit.Key != nil {
		c.Key = edit.Key
	}
	if edit.Headers != nil {
		c.Headers = edit.Headers
	}
	if edit.Payload != nil {
		c.Payload = edit.Payload
	}
	return c
}
