package httpkit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// Callbacks creates and opens the tokens of callback URLs: what the URL is for, signed. A token is the only credential
// of a report, so its signature is not shortened. It is signed with the key of the cursors, and begins with another
// byte, so that neither is ever taken for the other.
type Callbacks struct{ Key []byte }

// CallbackKind says what a callback URL is for. The token of one is never taken for that of another.
type CallbackKind byte

// Kinds of callback URLs.
const (
	CallbackOfStep        CallbackKind = 'c' // of the attempt of a step
	CallbackOfExamination CallbackKind = 'e' // of a call of an examination
)

// maxToken is the maximum length of a token.
const maxToken = 256

// Seal returns the token for what.
func (c Callbacks) Seal(kind CallbackKind, what []byte) string {
	token := append([]byte{byte(kind)}, what...)
	return base64.RawURLEncoding.EncodeToString(append(token, c.sign(token)...))
}

// Open returns what a token of a kind is for; ok is false if this server has not made it.
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
