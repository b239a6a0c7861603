package operator_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/operator"
)

// The digests were computed with printf '%s' … | sha256sum.
func TestHashOfASubjectIsThatOfItsCanonicalJSON(t *testing.T) {
	for _, tt := range []struct {
		name      string
		subject   any
		canonical string
	}{
		{"members by name", map[string]any{"b": 1, "a": []int{2, 1}}, `{"a":[2,1],"b":1}`},
		{"fields of a struct by name, in depth", struct {
			Z struct {
				Y int `json:"y"`
				X int `json:"x"`
			} `json:"z"`
			A *int `json:"a"`
		}{}, `{"a":null,"z":{"x":0,"y":0}}`},
		{"every digit of a number", json.RawMessage(`{"n": 12345678901234567890123, "m": 1.00}`), `{"m":1.00,"n":12345678901234567890123}`},
		{"nothing escaped that need not be", map[string]any{"s": "<&>é\""}, `{"s":"<&>é\""}`},
		{"an empty one", map[string]any{}, `{}`},
	} {
		want := sha256.Sum256([]byte(tt.canonical))
		if got := operator.Hash(tt.subject); hex.EncodeToString(got) != hex.EncodeToString(want[:]) {
			t.Errorf("%s: %x, want that of %s", tt.name, got, tt.canonical)
		}
	}
	if got, want := hex.EncodeToString(operator.Hash(map[string]any{})), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"; got != want {
		t.Errorf("of an empty object: %s, want %s", got, want)
	}
	if got := operator.Hash(nil); got != nil {
		t.Errorf("of no subject: %x", got)
	}
}

func TestDigestSeparatesFields(t *testing.T) {
	fields := func(of ...any) (out []*string) {
		for _, f := range of {
			if f == nil {
				out = append(out, nil)
				continue
			}
			out = append(out, new(f.(string)))
		}
		return out
	}
	if got, want := operator.Digest(fields("a", nil, "", "é")), sha256.Sum256([]byte("1:a,-,0:,2:é")); got != want {
		t.Errorf("%x, want %x", got, want)
	}
	seen := map[[sha256.Size]byte]string{}
	for _, of := range [][]*string{
		fields(), fields(""), fields(nil), fields("-"), fields("", ""), fields(nil, nil), fields("", nil), fields(nil, ""),
		fields("a", "bc"), fields("ab", "c"), fields("bc", "a"), fields("a,1:b"), fields("a", "b"), fields("1:a"),
		fields("a,-"), fields("a", nil),
	} {
		d, text := operator.Digest(of), cmp.Diff([]*string(nil), of)
		if other, is := seen[d]; is {
			t.Errorf("two lists of fields have one digest: %s and %s", other, text)
		}
		seen[d] = text
	}
}

// A field of By that is missing in Action would be missing in the audit trail.
func TestActionRecordsEverythingAboutItsActor(t *testing.T) {
	by := operator.By{
		Actor:      "key:ann",
		ActorName:  "ann",
		Reason:     "because",
		RequestID:  "req-1",
		Credential: uuid.UUID{4},
		Address:    "192.0.2.1",
		Operation:  "discardDeadLetter",
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	got := by.Did(uuid.UUID{1}, uuid.UUID{2}, at, operator.DeadLetter, "letter", "discard", json.RawMessage(`{"n":1}`))
	want := operator.Action{
		ID:         uuid.UUID{1},
		TenantID:   uuid.UUID{2},
		At:         at,
		Kind:       operator.DeadLetter,
		Subject:    "letter",
		Verb:       "discard",
		Detail:     json.RawMessage(`{"n":1}`),
		Actor:      "key:ann",
		ActorName:  "ann",
		Reason:     "because",
		RequestID:  "req-1",
		Credential: uuid.UUID{4},
		Address:    "192.0.2.1",
		Operation:  "discardDeadLetter",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	who, action := reflect.ValueOf(by), reflect.ValueOf(got)
	for i := range who.NumField() {
		name := who.Type().Field(i).Name
		if who.Field(i).IsZero() {
			t.Errorf("this test does not set By.%s", name)
		} else if f := action.FieldByName(name); !f.IsValid() || !f.Equal(who.Field(i)) {
			t.Errorf("By.%s is not in the action", name)
		}
	}
	from := got.From(map[string]int{"a": 1}, nil)
	if from.Before == nil || from.After != nil || got.Before != nil {
		t.Errorf(
			"of something deleted: before %x, after %x; and the action itself has %x",
			from.Before,
			from.After,
			got.Before,
		)
	}
}

func TestActorIsInTheContext(t *testing.T) {
	if by := operator.Acting(t.Context()); by != (operator.By{}) {
		t.Errorf("nobody acts, and it is %+v", by)
	}
	ann, bob := operator.By{Actor: "ann"}, operator.By{Actor: "bob", Reason: "r"}
	outer := operator.As(t.Context(), ann)
	if by := operator.Acting(operator.As(outer, bob)); by != bob {
		t.Errorf("%+v, want the last one that was said", by)
	}
	if by := operator.Acting(outer); by != ann {
		t.Errorf("%+v, want ann", by)
	}
}

func TestRoundRecordsWhatItRemovedPerTenant(t *testing.T) {
	operator.Took(t.Context(), uuid.UUID{1}, "sagas_archived", 1) // outside of a round
	ctx, tally := operator.Tallied(t.Context())
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			operator.Took(ctx, uuid.UUID{2}, "sagas_archived", 3)
			operator.Took(context.WithoutCancel(ctx), uuid.UUID{1}, "letters_purged", 1)
			operator.Took(ctx, uuid.UUID{1}, "letters_archived", 2)
			operator.Took(ctx, uuid.UUID{3}, "letters_archived", 0)
		})
	}
	all.Wait()
	_, other := operator.Tallied(ctx)
	at, ids := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), 0
	newID := func() uuid.UUID { ids++; return uuid.UUID{0xff, byte(ids)} }
	if got := other.Actions(operator.By{}, "sagas", at, newID); len(got) > 0 {
		t.Errorf("another round took %+v", got)
	}
	got := tally.Actions(operator.By{RequestID: "req-1"}, "sagas", at, newID)
	var said []string
	seen := map[uuid.UUID]bool{}
	for _, a := range got {
		said = append(
			said,
			fmt.Sprintf("%d %s %s %s %s %s %s", a.TenantID[0], a.Kind, a.Subject, a.Verb, a.Actor, a.RequestID, a.Detail),
		)
		if seen[a.ID] || !a.At.Equal(at) {
			t.Errorf("the action %s at %s", a.ID, a.At)
		}
		seen[a.ID] = true
	}
	want := []string{
		`1 retention sagas run system:retention req-1 {"letters_archived":100,"letters_purged":50}`,
		`2 retention sagas run system:retention req-1 {"sagas_archived":150}`,
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if got := tally.Actions(operator.By{Actor: "ann"}, "sagas", at, newID); len(got) != 2 || got[0].Actor != "ann" {
		t.Errorf("asked for by ann: %+v", got)
	}
}
