package httpkit

import (
	"context"
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/page"
)

const (
	DefaultPageSize = 20
	MaxPageDepth    = 10_000 // most rows for page numbers and for counting; OFFSET reads all rows before the page
)

// Order encodes a position in the order of a list in a cursor and decodes it. Clients keep
// cursors, so the encoding must not change.
type Order[C any] struct {
	Keys  func(C) []byte
	Place func(keys []byte) (C, error) // fault: Malformed
}

// The orders of the lists.
var (
	ByTime = Order[page.TimeID]{
		func(p page.TimeID) []byte { return append(microseconds(p.At), p.ID[:]...) },
		func(keys []byte) (page.TimeID, error) {
			if len(keys) != 8+16 {
				return page.TimeID{}, BadCursor()
			}
			return page.TimeID{At: timeAt(keys), ID: uuid.UUID(keys[8:])}, nil
		},
	}
	ByKeyAndTime = Order[page.KeyTimeID]{ // same as ByTime if there is no key
		func(p page.KeyTimeID) []byte { return append(ByTime.Keys(p.TimeID), p.Key...) },
		func(keys []byte) (page.KeyTimeID, error) {
			if len(keys) < 8+16 {
				return page.KeyTimeID{}, BadCursor()
			}
			at, err := ByTime.Place(keys[:8+16])
			return page.KeyTimeID{Key: string(keys[8+16:]), TimeID: at}, err
		},
	}
	ByTimeAndKey = Order[page.TimeKey]{
		func(p page.TimeKey) []byte { return append(microseconds(p.At), p.Key...) },
		func(keys []byte) (page.TimeKey, error) {
			if len(keys) < 8 {
				return page.TimeKey{}, BadCursor()
			}
			return page.TimeKey{At: timeAt(keys), Key: string(keys[8:])}, nil
		},
	}
	ByID = Order[uuid.UUID]{
		func(id uuid.UUID) []byte { return id[:] },
		func(keys []byte) (uuid.UUID, error) {
			if len(keys) != 16 {
				return uuid.Nil, BadCursor()
			}
			return uuid.UUID(keys), nil
		},
	}
	ByName = Order[string]{
		func(name string) []byte { return []byte(name) },
		func(keys []byte) (string, error) { return string(keys), nil },
	}
	ByNumber = Order[int]{ // in decimal
		func(n int) []byte { return []byte(strconv.Itoa(n)) },
		func(keys []byte) (int, error) {
			n, err := strconv.Atoi(string(keys))
			if err != nil {
				return 0, BadCursor()
			}
			return n, nil
		},
	}
	BySequence = Order[int64]{
		func(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }, //nolint:gosec // read back as it was
		func(keys []byte) (int64, error) {
			if len(keys) != 8 {
				return 0, BadCursor()
			}
			return int64(binary.BigEndian.Uint64(keys)), nil //nolint:gosec // as it was made
		},
	}
)

func microseconds(at time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro())) //nolint:gosec // read back as it was
}

func timeAt(keys []byte) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(keys))).UTC() //nolint:gosec // as it was made
}

// Asked is the page of a list that a client requested. Stores use only its Request.
type Asked[C any] struct {
	page.Request[C]
	number  int // page number from 1; 0: by cursor
	request *Request
	list    ListID
	order   Order[C]
	cursors Cursors
}

// SortOf reads the parameter sort of a list; "" means by creation. required is the order of its
// prefix filter, "" if there is none; asked must not name a different order. Fault: Malformed.
func SortOf[S, P ~string](asked *P, required S) (S, error) {
	if asked == nil {
		return required, nil
	}
	sort := S(*asked)
	if *asked == "created_at" {
		sort = ""
	}
	if required != "" && sort != required {
		return sort, BadParameter("sort", "excluded", "must be %s or omitted with that prefix", required)
	}
	return sort, nil
}

// Ascending reads the parameter order of a list.
func Ascending[P ~string](asked *P, byDefault bool) bool {
	if asked == nil {
		return byDefault
	}
	return *asked == "asc"
}

// PageOf reads the parameters of a list that has both numbered pages and cursors. Their ranges have
// already been checked against the contract.
func PageOf[C any, I ~string](ctx context.Context, c Cursors, order Order[C],
	number, size *int32, cursor *string, include []I) (Asked[C], error) {
	if cursor != nil && number != nil {
		return Asked[C]{}, ParameterFault(CodeInvalidParameter,
			fault.Field{Parameter: "cursor", Code: "excluded", Message: "cannot be combined with page"},
			fault.Field{Parameter: "page", Code: "excluded", Message: "cannot be combined with cursor"})
	}
	a, err := ForwardOf(ctx, c, order, size, cursor)
	exact := slices.Contains(include, "exact_total")
	a.Total = exact || slices.Contains(include, "total") || cursor == nil
	if !exact {
		a.TotalCap = MaxPageDepth
	}
	if err != nil || cursor != nil {
		return a, err
	}
	if a.number = 1; number != nil {
		a.number = int(*number)
	}
	if a.number*a.Limit > MaxPageDepth {
		return a, BadParameter("page", "maximum", "goes beyond the first %d rows: use next_cursor instead", MaxPageDepth)
	}
	a.Offset = (a.number - 1) * a.Limit
	return a, nil
}

// ForwardOf reads the parameters of a list that has only cursors and can therefore only be read
// forward.
func ForwardOf[C any](ctx context.Context, c Cursors, order Order[C], size *int32, cursor *string) (Asked[C], error) {
	request := RequestOf(ctx)
	a := Asked[C]{request: request, list: request.List(), order: order, cursors: c}
	if a.Limit = DefaultPageSize; size != nil {
		a.Limit = int(*size)
	}
	if cursor == nil {
		return a, nil
	}
	keys, err := c.Open(a.list, *cursor)
	if err != nil {
		return a, err
	}
	place, err := order.Place(keys)
	a.After = &place
	return a, err
}

// Pagination describes the page that was read, and stores the cursor of the next page in the
// request. place returns the position of an item.
func Pagination[C, T any](a Asked[C], found page.Of[T], place func(*T) C) api.Pagination {
	out := api.Pagination{PageSize: a.Limit, HasNext: found.More}
	if a.number > 0 {
		out.Page = &a.number
	}
	if a.Total {
		found.CapTotal(a.TotalCap) // some stores count short lists exactly
		out.TotalCount, out.TotalIsCapped = &found.Total, &found.TotalCapped
	}
	if found.More {
		last := place(&found.Items[len(found.Items)-1])
		a.request.Next = a.cursors.Seal(a.list, a.order.Keys(last))
		out.NextCursor = &a.request.Next
	}
	return out
}

// Each converts the items of a list.
func Each[T, A any](items []T, convert func(*T) A) []A {
	out := make([]A, len(items))
	for i := range items {
		out[i] = convert(&items[i])
	}
	return out
}
