package reported

import (
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestAnAttemptIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Attempt{
			Tenant: uuid.UUID{rapid.Byte().Draw(t, "tenant")}, Saga: uuid.UUID{15: rapid.Byte().Draw(t, "saga")},
			Step: rapid.IntRange(0, 10_000).Draw(t, "step"), Undo: rapid.Bool().Draw(t, "undo"),
			Number: rapid.IntRange(0, 1<<31).Draw(t, "number"),
		}
		b := a.Bytes()
		if got, ok := AttemptOf(b); !ok || got != a {
			t.Fatalf("%+v is read as %+v, %v", a, got, ok)
		}
		if _, ok := AttemptOf(append(b, 0)); ok {
			t.Error("bytes after it are not noticed")
		}
		for n := range b {
			if _, ok := AttemptOf(b[:n]); ok {
				t.Errorf("%d of %d bytes are read", n, len(b))
			}
		}
	})
	if _, ok := AttemptOf(rapid.SliceOfN(rapid.Byte(), 32, 32).Example()); ok {
		t.Error("an attempt without a number")
	}
}

func TestCodesOfResults(t *testing.T) {
	for _, r := range Results {
		code := r.Code()
		if got := Of(&code); got != r {
			t.Errorf("%s is of %q", code, got)
		}
	}
	for _, code := range []string{"", "later", "http_409", "reported_"} {
		if got := Of(&code); got != "" || Of(nil) != "" {
			t.Errorf("%q is of %q", code, got)
		}
	}
}
