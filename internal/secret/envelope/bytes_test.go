package envelope_test

import (
	"bytes"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/skald-saga/skald/internal/secret/envelope"
)

func TestAnyBytesOpenToThemselves(t *testing.T) {
	payload := envelope.Field{Name: "payload"}
	for name, keys := range map[string]*envelope.Keyring{"no keys": nil, "keys": parse(t, keyOne)} {
		t.Run(name, func(t *testing.T) {
			p := keys.SealerFor(tenant, sagaID)
			for _, plain := range []string{"", "\x00\xff", "plain", "$skald_", "$skald_enc:b1.one.x", "$skald_raw:",
				`{"$skald_enc":1}`} {
				stored, err := p.SealBytes(payload, []byte(plain))
				if err != nil || len(plain) > 7 && keys != nil && bytes.Contains(stored, []byte(plain)) {
					t.Errorf("%q is stored as %q, %v", plain, stored, err)
				}
				if got, err := p.OpenBytes(payload, stored); err != nil || string(got) != plain || got == nil {
					t.Errorf("%q opens to %q, %v", plain, got, err)
				}
				text, err := p.SealText(payload, plain)
				if err != nil || keys != nil && !utf8.ValidString(text) {
					t.Errorf("%q is the text %q, %v", plain, text, err)
				}
				if got, err := p.OpenBytes(payload, []byte(text)); err != nil || string(got) != plain {
					t.Errorf("%q opens to %q, %v", plain, got, err)
				}
			}
			if stored, err := p.SealBytes(payload, nil); stored != nil || err != nil {
				t.Errorf("nothing is stored as %q, %v", stored, err)
			}
		})
	}
}

func TestSealedBytesOpenNowhereElseAndNotWhenTheyWereChanged(t *testing.T) {
	payload := envelope.Field{Name: "payload"}
	p, other := parse(t, keyOne).SealerFor(tenant, sagaID), parse(t, keyOne).SealerFor(tenant, tenant)
	text, err := p.SealText(payload, "canary")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := p.SealBytes(payload, []byte("canary"))
	if err != nil {
		t.Fatal(err)
	}
	stranger := parse(t, keyTwo).SealerFor(tenant, sagaID)
	for _, stored := range [][]byte{[]byte(text), raw} {
		for name, open := range map[string]func() ([]byte, error){
			"another place": func() ([]byte, error) { return other.OpenBytes(payload, stored) },
			"another field": func() ([]byte, error) { return p.OpenBytes(envelope.Field{Name: "key"}, stored) },
			"without keys":  func() ([]byte, error) { return stranger.OpenBytes(payload, stored) },
		} {
			if got, err := open(); !errors.Is(err, envelope.ErrUnreadable) || got != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		for i := range stored {
			changed := bytes.Clone(stored)
			changed[i] ^= 1
			if got, err := p.OpenBytes(payload, changed); err == nil && bytes.Contains(got, []byte("canary")) {
				t.Errorf("byte %d changed, and it opens", i)
			}
		}
	}
}
