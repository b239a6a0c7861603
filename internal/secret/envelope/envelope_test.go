package envelope_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/secret/envelope"
)

const (
	keyOne = "one:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="
	keyTwo = "two:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAI="
)

var (
	tenant, sagaID = uuid.MustParse("11111111-1111-4111-8111-111111111111"), uuid.MustParse("22222222-2222-4222-8222-222222222222")
	request        = envelope.Field{Name: "request_payload", Step: 1, Action: "EXECUTE", Attempt: 1}
)

func parse(t testing.TB, text string) *envelope.Keyring {
	t.Helper()
	keys, err := envelope.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func seal(t testing.TB, keys *envelope.Keyring, f envelope.Field, plain string) []byte {
	t.Helper()
	p := keys.SealerFor(tenant, sagaID)
	stored, err := p.Seal(f, []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func TestWhatIsSealedOpensToTheSameBytes(t *testing.T) {
	keys := parse(t, keyOne)
	for _, plain := range []string{`null`, `""`, `{}`, `{"a":[1.50,"ж"]}`, `{"$skald_enc":"v1.one.AAAA"}`,
		`{"$skald_raw":1}`, strings.Repeat(`1`, 100_000)} {
		stored := seal(t, keys, request, plain)
		if !envelope.IsSealed(stored) || !json.Valid(stored) || len(plain) > 4 && bytes.Contains(stored, []byte(plain)) {
			t.Errorf("%.40s is stored as %.80s", plain, stored)
		}
		p := keys.SealerFor(tenant, sagaID)
		if got, err := p.Open(request, stored); err != nil || string(got) != plain {
			t.Errorf("%.40s opens to %.40s, %v", plain, got, err)
		}
	}
	if a, b := seal(t, keys, request, `1`), seal(t, keys, request, `1`); bytes.Equal(a, b) {
		t.Error("the same value twice shows that it is the same")
	}
}

func TestNothingIsSealedWithoutKeysOrWhileTheyOnlyOpen(t *testing.T) {
	sealed := seal(t, parse(t, keyOne), request, `{"n":1}`)
	for name, keys := range map[string]*envelope.Keyring{"no keys": nil, "only opens": parse(t, keyOne).OpenOnly()} {
		t.Run(name, func(t *testing.T) {
			p := keys.SealerFor(tenant, sagaID)
			// A client's value stays unchanged, even if it looks like one of Skald's.
			for plain, want := range map[string]string{
				`{"n":1}`:                        `{"n":1}`,
				`{"!":1,"$skald_":2}`:            `{"!":1,"$skald_":2}`,
				string(sealed):                   `{"$skald_raw":` + string(sealed) + `}`,
				`{"$skald_raw":1}`:               `{"$skald_raw":{"$skald_raw":1}}`,
				`{"$skald_enc":"v1.nokey.AAAA"}`: `{"$skald_raw":{"$skald_enc":"v1.nokey.AAAA"}}`,
			} {
				stored := seal(t, keys, request, plain)
				if string(stored) != want {
					t.Errorf("%s is stored as %s, want %s", plain, stored, want)
				}
				if got, err := p.Open(request, stored); err != nil || string(got) != plain {
					t.Errorf("%s reads back as %s, %v", plain, got, err)
				}
			}
			got, err := p.Open(request, sealed)
			if opens := keys != nil; opens != (err == nil && string(got) == `{"n":1}`) ||
				!opens && !errors.Is(err, envelope.ErrUnreadable) {
				t.Errorf("an envelope reads as %s, %v", got, err)
			}
		})
	}
}

func TestAValueOpensNowhereElseAndNotWhenItWasChanged(t *testing.T) {
	keys := parse(t, keyOne+","+keyTwo)
	const canary = "canary"
	stored := seal(t, keys, request, `"`+canary+`"`)
	refused := func(what string, tenant, id uuid.UUID, f envelope.Field, keys *envelope.Keyring, stored []byte) {
		t.Helper()
		p := keys.SealerFor(tenant, id)
		got, err := p.Open(f, stored)
		if !errors.Is(err, envelope.ErrUnreadable) || got != nil {
			t.Errorf("%s: %s, %v", what, got, err)
		}
		if err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("%s: the error shows content: %v", what, err)
		}
	}
	refused("another tenant", sagaID, sagaID, request, keys, stored)
	refused("another saga", tenant, tenant, request, keys, stored)
	for _, f := range []envelope.Field{
		{Name: "response_payload", Step: 1, Action: "EXECUTE", Attempt: 1},
		{Name: "request_payload", Step: 2, Action: "EXECUTE", Attempt: 1},
		{Name: "request_payload", Step: 1, Action: "COMPENSATE", Attempt: 1},
		{Name: "request_payload", Step: 1, Action: "EXECUTE", Attempt: 11},
	} {
		refused(f.String(), tenant, sagaID, f, keys, stored)
	}
	refused("without its key", tenant, sagaID, request, parse(t, keyTwo), stored)
	refused("as another key's", tenant, sagaID, request, keys, bytes.Replace(stored, []byte(".one."), []byte(".two."), 1))
	for i := range stored {
		for bit := range 8 {
			changed := bytes.Clone(stored)
			changed[i] ^= 1 << bit
			p := keys.SealerFor(tenant, sagaID)
			if got, err := p.Open(request, changed); err == nil && bytes.Contains(got, []byte(canary)) {
				t.Fatalf("bit %d of byte %d changed, and it opens: %s", bit, i, changed)
			}
		}
	}
}

func TestOldKeysOpenAndTheFirstSeals(t *testing.T) {
	old := seal(t, parse(t, keyOne), request, `1`)
	keys := parse(t, keyTwo+"\n"+keyOne+"\n")
	if fresh := seal(t, keys, request, `2`); !bytes.Contains(fresh, []byte("v1.two.")) || keys.Current() != "two" {
		t.Errorf("sealed with %s: %s", keys.Current(), fresh)
	}
	p := keys.SealerFor(tenant, sagaID)
	for want, stored := range map[string][]byte{"1": old, "2": seal(t, keys, request, `2`)} { // one place, two keys
		if got, err := p.Open(request, stored); err != nil || string(got) != want {
			t.Errorf("opens to %s, %v; want %s", got, err, want)
		}
	}
}

func TestKeysAreReadPreciselyAndNeverShown(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		keyOne:                  "",
		keyOne + ", " + keyTwo:  "",
		" ,\n":                  "must have a key, ID:KEY",
		"AAAA":                  "entry 1 must be ID:KEY, where ID is 1 to 32 letters, digits, _ and -",
		keyOne + ",t.wo:canary": "entry 2 must be ID:KEY, where ID is 1 to 32 letters, digits, _ and -",
		keyOne + ",two:canary":  "entry 2 must have a key of 32 bytes in base64, as openssl rand -base64 32 prints it",
		"one:AAAA":              "entry 1 must have a key of 32 bytes in base64, as openssl rand -base64 32 prints it",
		keyOne + "," + keyOne:   "entry 2 has the id of an earlier entry",
	} {
		_, err := envelope.Parse(text)
		if got := ""; err != nil && err.Error() != want || err == nil && want != got {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func BenchmarkSealAndOpen(b *testing.B) {
	for name, keys := range map[string]*envelope.Keyring{"off": nil, "on": parse(b, keyOne)} {
		plain := []byte(`{"order":"` + strings.Repeat("x", 500) + `"}`)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p := keys.SealerFor(tenant, sagaID)
				stored, err := p.Seal(request, plain)
				if err == nil {
					_, err = p.Open(request, stored)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
