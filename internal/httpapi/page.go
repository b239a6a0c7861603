package httpapi

import (
	"slices"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
)

const (
	defaultPageSize = 20
	maxPageDepth    = 10_000 // rows that page can reach, and that are counted; OFFSET reads all before
)

// paging is the part of a page that the client asked for.
type paging struct {
	page  int // 0 in cursor mode
	size  int
	after []byte // sort keys of the last item before; cursor mode only
	total bool
	exact bool // count all, however many
	// capped: there are at least as many as were counted. To be set with what the
	// store says; a total above maxPageDepth is capped in any case.
	capped bool

	list    listID
	cursors Cursors
}

// pagingOf reads the parameters of a list. Their ranges are the contract's.
func (k *Kit) pagingOf(list listID, page, size *int32, cursor *string, include []string) (paging, error) {
	exact := slices.Contains(include, "exact_total")
	p := paging{page: 1, size: defaultPageSize, list: list, cursors: k.Cursors, total: exact || slices.Contains(include, "total"), exact: exact}
	if size != nil {
		p.size = int(*size)
	}
	if cursor != nil {
		if page != nil {
			return p, parameterFault(codeInvalidParameter,
				fault.Field{Pointer: "cursor", Code: "excluded", Message: "cannot be combined with page"},
				fault.Field{Pointer: "page", Code: "excluded", Message: "cannot be combined with cursor"})
		}
		after, err := k.Cursors.open(list, *cursor)
		p.page, p.after = 0, after
		return p, err
	}
	if page != nil {
		p.page = int(*page)
	}
	if p.page*p.size > maxPageDepth {
		return p, badParameter("page", "maximum", "goes beyond the first %d rows: use next_cursor instead", maxPageDepth)
	}
	p.total = true
	return p, nil
}

func (p paging) offset() int {
	if p.page == 0 {
		return 0
	}
	return (p.page - 1) * p.size
}

// countUpTo is where a store may stop counting; 0: nowhere.
func (p paging) countUpTo() int64 {
	if p.exact {
		return 0
	}
	return maxPageDepth
}

// answer describes the page that was read. last are the sort keys of its last
// item, used only when there is more.
func (p paging) answer(more bool, total int64, last func() []byte) api.Pagination {
	out := api.Pagination{PageSize: p.size, HasNext: more}
	if p.page > 0 {
		out.Page = &p.page
	}
	if p.total {
		if !p.exact && total > maxPageDepth {
			total, p.capped = maxPageDepth, true
		}
		out.TotalCount, out.TotalIsCapped = &total, &p.capped
	}
	if more {
		out.NextCursor = new(p.cursors.seal(p.list, last()))
	}
	return out
}

// onward is answer for lists that only go forward, by cursor.
func (p paging) onward(more bool, last func() []byte) api.Pagination {
	p.page, p.total = 0, false
	return p.answer(more, 0, last)
}
