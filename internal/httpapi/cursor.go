package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga"
)

// cursors makes and opens the opaque tokens of lists: where a page ended, and
// a hash of the list it belongs to, signed. A token says nothing a client
// could use, and nothing a client makes up is believed (trap X5).
type cursors struct{ key []byte }

const (
	cursorVersion = 1
	cursorList    = 16 // bytes of the list's hash
	cursorMAC     = 16 // bytes of the signature
)

// listID identifies a list: whose it is, which one, and with which filters.
type listID [cursorList]byte

// newListID returns the id of the list at path with the filters in query.
func newListID(tenant uuid.UUID, path string, query url.Values, filters ...string) listID {
	chosen := url.Values{}
	for _, name := range filters {
		if values, ok := query[name]; ok {
			chosen[name] = values
		}
	}
	sum := sha256.Sum256([]byte(tenant.String() + "\n" + path + "\n" + chosen.Encode()))
	return listID(sum[:cursorList])
}

// seal returns the token for the place after the item whose sort keys are last.
func (c cursors) seal(list listID, last []byte) string {
	token := append([]byte{cursorVersion}, list[:]...)
	token = append(token, last...)
	return base64.RawURLEncoding.EncodeToString(append(token, c.sign(token)...))
}

// open returns the sort keys in a token of this list. Fault: Malformed.
func (c cursors) open(list listID, token string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < 1+cursorList+cursorMAC {
		return nil, badCursor()
	}
	body, mac := raw[:len(raw)-cursorMAC], raw[len(raw)-cursorMAC:]
	if !hmac.Equal(mac, c.sign(body)) || body[0] != cursorVersion {
		return nil, badCursor()
	}
	if listID(body[1:1+cursorList]) != list {
		return nil, badParameter("cursor", "invalid", "belongs to another list or to other filters: start again without a cursor")
	}
	return body[1+cursorList:], nil
}

func (c cursors) sign(b []byte) []byte {
	h := hmac.New(sha256.New, c.key)
	h.Write(b)
	return h.Sum(nil)[:cursorMAC]
}

func badCursor() error {
	return badParameter("cursor", "invalid", "was not issued by this server")
}

// sagaKeys are the sort keys of a saga: microseconds and id.
func sagaKeys(s *saga.Saga) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(s.CreatedAt.UnixMicro()))
	return append(b, s.ID[:]...)
}

// sagaCursor is the inverse of sagaKeys.
func sagaCursor(b []byte) (*saga.Cursor, error) {
	if len(b) != 8+16 {
		return nil, badCursor()
	}
	return &saga.Cursor{
		CreatedAt: time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC(),
		ID:        uuid.UUID(b[8:]),
	}, nil
}
