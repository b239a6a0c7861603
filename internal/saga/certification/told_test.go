package certification

import (
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

func TestCallbacksOfExaminations(t *testing.T) {
	for _, c := range []Callback{
		{Tenant: uuid.New(), ID: uuid.New(), Token: uuid.New(), Call: "later-1"},
		{Tenant: uuid.New(), ID: uuid.New(), Token: uuid.New(), Call: "later-2", Undo: true},
		{Tenant: uuid.New(), ID: uuid.New(), Token: uuid.New(), Call: "x", Undo: true, Again: true},
	} {
		b := c.Bytes()
		if got, ok := CallbackOf(b); !ok || got != c {
			t.Errorf("%+v became %+v", c, got)
		}
		b[48] = 9
		for _, other := range [][]byte{nil, b[:49], b, reported.Attempt{Number: 1}.Bytes()} {
			if got, ok := CallbackOf(other); ok {
				t.Errorf("%x is taken for %+v", other, got)
			}
		}
	}
}

// The first report of a call counts. A report that must be sent again does not count.
func TestTheMailOfAnExamination(t *testing.T) {
	m := Mail{}
	for i, try := range []struct {
		call    string
		again   bool
		report  string
		first   string
		changed bool
	}{
		{"a", false, "1", "1", true},
		{"a", false, "2", "1", false},
		{"b", true, "3", "", true},
		{"b", true, "4", "4", true},
		{"b", true, "5", "4", false},
		{"a", false, "6", "1", false},
	} {
		first, changed := m.Put(Callback{Call: try.call, Again: try.again}, []byte(try.report))
		if string(first) != try.first || changed != try.changed {
			t.Errorf("report %d: the first is %q, changed %t", i+1, first, changed)
		}
	}
}
