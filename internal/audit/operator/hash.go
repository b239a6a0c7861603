package operator

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"strconv"
)

// Hash returns the SHA-256 of a subject's canonical JSON: members ordered by name, no white space,
// minimal escapes, as `jq -cS` prints it. It returns nil for nil. A subject must not contain
// secrets or payloads, because anyone can verify a guess against the hash.
func Hash(subject any) []byte {
	if subject == nil {
		return nil
	}
	plain, err := json.Marshal(subject)
	if err == nil {
		plain, err = ordered(plain)
	}
	if err != nil {
		panic("operator: encode a subject as JSON: " + err.Error())
	}
	sum := sha256.Sum256(plain)
	return sum[:]
}

// ordered encodes a document again, because encoding/json orders the members of maps by name.
func ordered(doc []byte) ([]byte, error) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// Digest returns the digest that is stored with an action (saga.action_digest): the SHA-256 of each
// field's length and text, or "-" for NULL, separated by commas. fields must be formatted as
// PostgreSQL prints them, in the order of that function.
func Digest(fields []*string) [sha256.Size]byte {
	var b []byte
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		if f == nil {
			b = append(b, '-')
			continue
		}
		b = append(append(strconv.AppendInt(b, int64(len(*f)), 10), ':'), *f...)
	}
	return sha256.Sum256(b)
}
