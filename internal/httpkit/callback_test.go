package httpkit

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/google/uuid"
)

func TestTokensOfCallbacks(t *testing.T) {
	c := Callbacks{Key: bytes.Repeat([]byte("k"), 32)}
	what := []byte("an attempt")
	token := c.Seal(CallbackOfStep, what)
	if got, ok := c.Open(CallbackOfStep, token); !ok || !bytes.Equal(got, what) {
		t.Fatalf("opened %q, %v", got, ok)
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw { // no bit of it can be changed
		forged := bytes.Clone(raw)
		forged[i] ^= 1
		if _, ok := c.Open(CallbackOfStep, base64.RawURLEncoding.EncodeToString(forged)); ok {
			t.Errorf("byte %d may be changed", i)
		}
	}
	cursor := Cursors(c).Seal(NewListID(uuid.UUID{1}, "/x", nil), bytes.Repeat([]byte("c"), 40))
	for name, token := range map[string]string{
		"none": "", "that of an examination": c.Seal(CallbackOfExamination, what),
		"cut": token[:len(token)-1], "longer": token + "A", "no base64": "§", "a cursor": cursor,
		"that of another key": Callbacks{Key: []byte("other")}.Seal(CallbackOfStep, what),
		"very long":           base64.RawURLEncoding.EncodeToString(make([]byte, 1<<16)),
	} {
		if _, ok := c.Open(CallbackOfStep, token); ok {
			t.Errorf("%s is opened", name)
		}
	}
	if _, err := (Cursors(c)).Open(NewListID(uuid.UUID{1}, "/x", nil), token); err == nil {
		t.Error("a cursor can be made of a callback")
	}
}
