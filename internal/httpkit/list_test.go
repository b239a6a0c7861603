package httpkit

import (
	"bytes"
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/page"
)

// checkOrder checks an order against the bytes of cursors that clients hold.
func checkOrder[C any](t *testing.T, name string, o Order[C], place C, want string, foreign ...string) {
	t.Helper()
	keys := o.Keys(place)
	if got := hex.EncodeToString(keys); got != want {
		t.Errorf("%s: %+v is %s; want %s, as in existing cursors", name, place, got, want)
	}
	back, err := o.Place(keys)
	if diff := cmp.Diff(place, back); err != nil || diff != "" {
		t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
	}
	for _, text := range foreign {
		if _, err := o.Place([]byte(text)); err == nil {
			t.Errorf("%s: %q was accepted as a position", name, text)
		}
	}
}

func TestPositionsSurviveTheirCursors(t *testing.T) {
	id := uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")
	at := time.Date(2026, 11, 21, 12, 0, 0, 123456000, time.UTC)
	const micro, text = "000660c819a35240", "00112233445566778899aabbccddeeff"
	checkOrder(t, "time and id", ByTime, page.TimeID{At: at, ID: id}, micro+text, "short", "one byte more than it has")
	checkOrder(t, "the epoch", ByTime, page.TimeID{At: time.UnixMicro(0).UTC()}, "0000000000000000"+"00000000000000000000000000000000")
	checkOrder(t, "before the epoch", ByTime, page.TimeID{At: time.UnixMicro(-1).UTC(), ID: id}, "ffffffffffffffff"+text)
	checkOrder(t, "time and key", ByTimeAndKey, page.TimeKey{At: at, Key: "ab"}, micro+"6162", "short")
	checkOrder(t, "id", ByID, id, text, "", "short")
	checkOrder(t, "name", ByName, "ab", "6162")
	checkOrder(t, "number", ByNumber, 12, "3132", "", "1x")
	checkOrder(t, "sequence", BySequence, 258, "0000000000000102", "", "short")
}

// asked reads the parameters of the list at path.
func asked(t *testing.T, number, size *int32, cursor *string, include ...string) (Asked[string], error) {
	t.Helper()
	ctx := WithRequest(context.Background(), &Request{Path: "/api/v1/things"})
	return PageOf(ctx, Cursors{Key: bytes.Repeat([]byte("k"), 32)}, ByName, number, size, cursor, include)
}

func TestPageIsRequestedByNumberOrByCursor(t *testing.T) {
	self := func(s *string) string { return *s }
	found := page.Of[string]{Items: []string{"a", "b"}, More: true, Total: 20_000}
	var cursor string
	for _, tt := range []struct {
		name    string
		number  *int32
		include []string
		want    page.Request[string]
		answer  api.Pagination
	}{
		{"the first", nil, nil, page.Request[string]{Limit: 2, Total: true, TotalCap: 10_000}, api.Pagination{Page: new(1), TotalCount: new(int64(10_000)), TotalIsCapped: new(true)}},
		{"a later one", new(int32(3)), nil, page.Request[string]{Limit: 2, Offset: 4, Total: true, TotalCap: 10_000}, api.Pagination{Page: new(3), TotalCount: new(int64(10_000)), TotalIsCapped: new(true)}},
		{"counted to the end", nil, []string{"exact_total"}, page.Request[string]{Limit: 2, Total: true}, api.Pagination{Page: new(1), TotalCount: new(int64(20_000)), TotalIsCapped: new(false)}},
	} {
		a, err := asked(t, tt.number, new(int32(2)), nil, tt.include...)
		if diff := cmp.Diff(tt.want, a.Request); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
		got := Pagination(a, found, self)
		cursor = *got.NextCursor
		tt.answer.PageSize, tt.answer.HasNext, tt.answer.NextCursor = 2, true, &cursor
		if diff := cmp.Diff(tt.answer, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	for _, tt := range []struct {
		name    string
		include []string
		want    page.Request[string]
		total   *int64
	}{
		{"after it", nil, page.Request[string]{Limit: 20, After: new("b"), TotalCap: 10_000}, nil},
		{"after it, counted", []string{"total"}, page.Request[string]{Limit: 20, After: new("b"), Total: true, TotalCap: 10_000}, new(int64(7))},
	} {
		a, err := asked(t, nil, nil, &cursor, tt.include...)
		if diff := cmp.Diff(tt.want, a.Request); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
		got := Pagination(a, page.Of[string]{Items: []string{"c"}, Total: 7}, self)
		if diff := cmp.Diff(tt.total, got.TotalCount); diff != "" || got.Page != nil || got.HasNext || got.NextCursor != nil {
			t.Errorf("%s: %+v\n%s", tt.name, got, diff)
		}
	}
	if _, err := asked(t, new(int32(2)), nil, &cursor); err == nil {
		t.Error("a page and a cursor were accepted together")
	}
	if _, err := asked(t, new(int32(501)), nil, nil); err == nil {
		t.Error("a page beyond the depth was read")
	}
}
