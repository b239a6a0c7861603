package httpkit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/url"

	"github.com/google/uuid"
)

// Cursors creates and opens the opaque tokens of lists. A token contains the position where a page
// ended and a hash of the list that it belongs to, and is signed. A token contains nothing useful
// to a client, and a forged token is rejected (trap X5).
type Cursors struct{ Key []byte }

const (
	cursorVersion = 1
	cursorList    = 16 // bytes of the list's hash
	cursorMAC     = 16 // bytes of the signature
)

// ListID identifies a list: its tenant, its path and its filters.
type ListID [cursorList]byte

// notFilters are the query parameters of lists that select the page and its presentation. All other
// parameters determine the content of the list.
var notFilters = []string{"page", "page_size", "limit", "cursor", "include", "view"}

// NewListID returns the ID of the list at path with the filters in query. The query contains only
// parameters of the operation, because others have already been rejected, so a filter that is added
// to the contract automatically becomes part of cursors.
func NewListID(tenant uuid.UUID, path string, query url.Values) ListID {
	filters := maps.Clone(query)
	for _, name := range notFilters {
		delete(filters, name)
	}
	sum := sha256.Sum256([]byte(tenant.String() + "\n" + path + "\n" + filters.Encode()))
	return ListID(sum[:cursorList])
}

// Seal returns the token for the position after the item whose sort keys are last.
func (c Cursors) Seal(list ListID, last []byte) string {
	token := append([]byte{cursorVersion}, list[:]...)
	token = append(token, last...)
	return base64.RawURLEncoding.EncodeToString(append(token, c.sign(token)...))
}

// Open returns the sort keys in a token of this list. Fault: Malformed.
func (c Cursors) Open(list ListID, token string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < 1+cursorList+cursorMAC {
		return nil, BadCursor()
	}
	body, mac := raw[:len(raw)-cursorMAC], raw[len(raw)-cursorMAC:]
	if !hmac.Equal(mac, c.sign(body)) || body[0] != cursorVersion {
		return nil, BadCursor()
	}
	if ListID(body[1:1+cursorList]) != list {
		return nil, BadParameter("cursor", "invalid", "belongs to another list, other filters or another order: start again without a cursor")
	}
	return body[1+cursorList:], nil
}

func (c Cursors) sign(b []byte) []byte {
	h := hmac.New(sha256.New, c.Key)
	h.Write(b)
	return h.Sum(nil)[:cursorMAC]
}

// BadCursor returns the fault for a cursor that Skald did not issue. Fault: Malformed.
func BadCursor() error {
	return BadParameter("cursor", "invalid", "was not issued by this server")
}
