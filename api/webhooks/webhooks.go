// Package webhooks is for receivers of Skald's webhooks and for participants of sagas. It verifies
// that a request comes from the server that shares a secret with the receiver, that it was not
// modified in transit, and that it is not an old request sent again.
//
// The signatures follow Standard Webhooks 1.0 (symmetric, v1), so its libraries in other languages
// work as well. docs/webhooks.md and docs/participants.md contain test vectors and a shell example.
package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Headers of every webhook request.
const (
	HeaderID        = "webhook-id"        // the same for every attempt of a delivery; ignore ids already seen
	HeaderTimestamp = "webhook-timestamp" // time of this attempt, in seconds since 1970
	HeaderSignature = "webhook-signature" // one or more signatures, separated by spaces
)

// Headers of every signed call to a participant.
const (
	CallHeaderID        = "Idempotency-Key"  // the same for every attempt of a call
	CallHeaderTimestamp = "X-Saga-Timestamp" // time of this attempt, in seconds since 1970
	CallHeaderSignature = "X-Saga-Signature" // one or more signatures, separated by spaces
)

// Tolerance is how far the timestamp may differ from the receiver's clock.
const Tolerance = 5 * time.Minute

// prefix starts every secret, so that leaked secrets can be recognized.
const prefix = "whsec_"

// Limits for the length of a secret's key, in bytes (Standard Webhooks).
const (
	minKey = 24
	maxKey = 64
)

// Errors in a request or a secret.
var (
	ErrHeaders   = errors.New("webhooks: a header is missing or malformed")
	ErrTimestamp = errors.New("webhooks: the timestamp is too far from now")
	ErrSignature = errors.New("webhooks: no signature matches")
	ErrSecret    = errors.New("webhooks: a secret must be whsec_ followed by the base64 of 24 to 64 bytes")
)

// ParseSecret returns the key that a secret contains, or ErrSecret.
func ParseSecret(secret string) ([]byte, error) {
	text, found := strings.CutPrefix(secret, prefix)
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if !found || err != nil || len(key) < minKey || len(key) > maxKey {
		return nil, ErrSecret
	}
	return key, nil
}

// ParseSecrets returns the keys of a list of secrets separated by commas or white space, or
// ErrSecret.
func ParseSecrets(list string) ([][]byte, error) {
	var keys [][]byte
	for secret := range strings.FieldsFuncSeq(list, func(c rune) bool { return c == ',' || unicode.IsSpace(c) }) {
		key, err := ParseSecret(secret)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// FormatSecret is the inverse of ParseSecret.
func FormatSecret(key []byte) string { return prefix + base64.StdEncoding.EncodeToString(key) }

// Sign returns the signature of one attempt with one key, in the format of HeaderSignature and
// CallHeaderSignature.
func Sign(key []byte, id string, at time.Time, body []byte) string {
	return "v1," + base64.StdEncoding.EncodeToString(mac(key, id, strconv.FormatInt(at.Unix(), 10), body))
}

// mac computes the MAC of id, timestamp and body, joined by dots, as Standard Webhooks specifies.
func mac(key []byte, id, timestamp string, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "." + timestamp + "."))
	h.Write(body)
	return h.Sum(nil)
}

// Verify returns nil if the request with these headers and this body, as received, was signed with
// one of secrets within Tolerance of now. Pass two secrets while one replaces the other. The errors
// are those of this package; none of them reveals the correct signature.
//
// A recorded request that is sent again within Tolerance still passes verification, so keep each
// HeaderID for at least twice the Tolerance and ignore requests that you have already seen.
func Verify(secrets []string, header http.Header, body []byte, now time.Time) error {
	return verify(secrets, header.Get(HeaderID), header.Get(HeaderTimestamp), header.Values(HeaderSignature), body, now)
}

// VerifyCall is like Verify, for a call to a participant. The id of a call is its Idempotency-Key,
// by which a participant recognizes what it has already done. The signature does not cover the URL
// or the other headers; the body names the saga and the step.
func VerifyCall(secrets []string, header http.Header, body []byte, now time.Time) error {
	return verify(secrets, header.Get(CallHeaderID), header.Get(CallHeaderTimestamp),
		header.Values(CallHeaderSignature), body, now)
}

func verify(secrets []string, id, timestamp string, signatures []string, body []byte, now time.Time) error {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if id == "" || err != nil || len(signatures) == 0 {
		return ErrHeaders
	}
	if off := now.Sub(time.Unix(seconds, 0)); off > Tolerance || off < -Tolerance {
		return ErrTimestamp
	}
	for _, secret := range secrets {
		key, err := ParseSecret(secret)
		if err != nil {
			return err
		}
		want := mac(key, id, timestamp, body)
		for given := range strings.FieldsSeq(strings.Join(signatures, " ")) {
			version, text, _ := strings.Cut(given, ",")
			got, err := base64.StdEncoding.DecodeString(text)
			if version == "v1" && err == nil && hmac.Equal(got, want) {
				return nil
			}
		}
	}
	return ErrSignature
}
