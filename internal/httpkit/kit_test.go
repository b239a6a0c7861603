package httpkit

import (
	"bytes"
	"crypto/sha256"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestTraceparentIsUsedOnlyWhenWellFormed(t *testing.T) {
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for header, want := range map[string]bool{
		"00-" + trace + "-" + parent + "-01":                    true,
		"01-" + trace + "-" + parent + "-01-future":             true,
		"00-" + trace + "-" + parent + "-01-surplus":            false,
		"ff-" + trace + "-" + parent + "-01":                    false,
		"00-" + trace[1:] + "-" + parent + "-01":                false,
		"00-" + trace + "-" + parent[1:] + "-01":                false,
		"00-0AF7651916CD43DD8448EB211C80319C-" + parent:         false,
		"00-00000000000000000000000000000000-" + parent + "-01": false,
		"00-" + trace + "-0000000000000000-01":                  false,
		"00-" + trace + "-" + parent + "-zz":                    false,
		"":                                                      false,
		"---":                                                   false,
	} {
		gotTrace, gotParent := TraceOf(header)
		if (gotTrace != nil) != want || (gotParent != nil) != want {
			t.Errorf("%q taken %t, want %t", header, gotTrace != nil, want)
		}
		if want && (*gotTrace != trace || *gotParent != parent) {
			t.Errorf("%q gave %s and %s", header, *gotTrace, *gotParent)
		}
	}
}

func TestHowLongARequestWaits(t *testing.T) {
	s := &Kit{Limits: Limits{MaxWait: time.Minute}}
	some := func(text string) *string { return &text }
	for _, tt := range []struct {
		name          string
		query, prefer *string
		wait          time.Duration
		honoured      string
		refused       bool
	}{
		{"not at all by default", nil, nil, 0, "", false},
		{"as the parameter says", some("1m"), nil, time.Minute, "", false},
		{"no longer than the server likes", some("2h"), nil, time.Minute, "", false},
		{"not beyond every duration", some("9999999999h"), nil, 0, "", true},
		{"not by a number without unit", some("5"), nil, 0, "", true},
		{"not into the past", some("-1s"), nil, 0, "", true},
		{"as Prefer says", nil, some("wait=5"), 5 * time.Second, "wait=5", false},
		{"as Prefer says among others", nil, some("respond-async; x=y, wait=5"), 5 * time.Second, "wait=5", false},
		{"as much of Prefer as the server likes", nil, some("wait=3600"), time.Minute, "wait=60", false},
		{"not by a Prefer that makes no sense", nil, some("wait=soon"), 0, "", false},
		{"not by a negative Prefer", nil, some("wait=-5"), 0, "", false},
		{"by the parameter before Prefer", some("1s"), some("wait=5"), time.Second, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wait, honoured, err := s.WaitOf(tt.query, tt.prefer)
			if wait != tt.wait || honoured != tt.honoured || (err != nil) != tt.refused {
				t.Errorf("got %v %q %v, want %v %q, refused %t", wait, honoured, err, tt.wait, tt.honoured, tt.refused)
			}
		})
	}
}

func TestCursorIsBoundToEveryFilter(t *testing.T) {
	tenant := uuid.MustParse("00000000-0000-0000-0000-00000000000a")
	list := func(query string) ListID {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		return NewListID(tenant, "/api/v1/sagas", values)
	}
	// Cursors that clients still hold were made from this text.
	sum := sha256.Sum256([]byte("00000000-0000-0000-0000-00000000000a\n/api/v1/sagas\nstate=failed&status=FAILED&status=RUNNING"))
	if got := list("status=FAILED&status=RUNNING&state=failed"); !bytes.Equal(got[:], sum[:len(got)]) {
		t.Error("the id of a list has changed, which makes clients' cursors invalid")
	}
	plain := list("")
	for _, shown := range []string{"page=3", "page_size=7", "limit=5", "cursor=abc", "include=total", "view=full"} {
		if list(shown) != plain {
			t.Errorf("%s changes the id of the list", shown)
		}
	}
	for _, filter := range []string{"status=FAILED", "order=asc", "a_filter_of_tomorrow=1"} {
		if list(filter) == plain {
			t.Errorf("%s does not change the id of the list", filter)
		}
	}
}
