package httpkit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// Callbacks creates and opens the tokens of callback URLs. A token contains the purpose of the URL
// and a signature. It is the only credential of a report, so its signature is not shortened. Tokens
// are signed with the key for cursors but begin with a different byte, so that the two cannot be
// confused.
type Callbacks struct{ Key []byte }

// CallbackKind is the purpose of a callback URL. A token of one kind is never accepted as a token
// of another kind.
type CallbackKind byte

// Kinds of callback URLs.
const (
	CallbackOfStep        CallbackKind = 'c' // for an attempt of a step
	CallbackOfExamination CallbackKind = 'e' // for a call of a certification
)

// maxToken is the maximum length of a token.
const maxToken = 256

// Seal returns the token with the content what.
func (c Callbacks) Seal(kind CallbackKind, what []byte) string {
	token := append([]byte{byte(kind)}, what...)
	return base64.RawURLEncoding.EncodeToString(append(token, c.sign(token)...))
}

// Open returns the content of a token of a kind; ok is false if this server did not issue it.
func (c Callbacks) Open(kind CallbackKind, token string) (what []byte, ok bool) {
	if len(token) > maxToken {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < 1+sha256.Size {
		return nil, false
	}
	body, mac := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	if !hmac.Equal(mac, c.sign(body)) || body[0] != byte(kind) {
		return nil, false
	}
	return body[1:], true
}

func (c Callbacks) sign(b []byte) []byte {
	h := hmac.New(sha256.New, c.Key)
	h.Write(b)
	return h.Sum(nil)
}
