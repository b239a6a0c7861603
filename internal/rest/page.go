package rest

import (
	"slices"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
)

const (
	DefaultPageSize = 20
	MaxPageDepth    = 10_000 // rows that page can reach, and that are counted; OFFSET reads all before
)

// Paging is the part of a page that the client asked for.
type Paging struct {
	Page  int // 0 in cursor mode
	Size  int
	After []byte // sort keys of the last item before; cursor mode only
	Total bool
	exact bool // count all, however many
	// Capped: there are at least as many as were counted. To be set with what the
	// store says; a total above MaxPageDepth is capped in any case.
	Capped bool

	list    ListID
	cursors Cursors
}

// PagingOf reads the parameters of a list. Their ranges are the contract's.
func (k *Kit) PagingOf(list ListID, page, size *int32, cursor *string, include []string) (Paging, error) {
	exact := slices.Contains(include, "exact_total")
	p := Paging{Page: 1, Size: DefaultPageSize, list: list, cursors: k.Cursors,
		Total: exact || slices.Contains(include, "total"), exact: exact}
	if size != nil {
		p.Size = int(*size)
	}
	if cursor != nil {
		if page != nil {
			return p, ParameterFault(CodeInvalidParameter,
				fault.Field{Pointer: "cursor", Code: "excluded", Message: "cannot be combined with page"},
				fault.Field{Pointer: "page", Code: "excluded", Message: "cannot be combined with cursor"})
		}
		after, err := k.Cursors.Open(list, *cursor)
		p.Page, p.After = 0, after
		return p, err
	}
	if page != nil {
		p.Page = int(*page)
	}
	if p.Page*p.Size > MaxPageDepth {
		return p, BadParameter("page", "maximum", "goes beyond the first %d rows: use next_cursor instead", MaxPageDepth)
	}
	p.Total = true
	return p, nil
}

// Offset is how many items come before the page; 0 in cursor mode.
func (p Paging) Offset() int {
	if p.Page == 0 {
		return 0
	}
	return (p.Page - 1) * p.Size
}

// CountUpTo is where a store may stop counting; 0: nowhere.
func (p Paging) CountUpTo() int64 {
	if p.exact {
		return 0
	}
	return MaxPageDepth
}

// Answer describes the page that was read. last are the sort keys of its last
// item, used only when there is more.
func (p Paging) Answer(more bool, total int64, last func() []byte) api.Pagination {
	out := api.Pagination{PageSize: p.Size, HasNext: more}
	if p.Page > 0 {
		out.Page = &p.Page
	}
	if p.Total {
		if !p.exact && total > MaxPageDepth {
			total, p.Capped = MaxPageDepth, true
		}
		out.TotalCount, out.TotalIsCapped = &total, &p.Capped
	}
	if more {
		out.NextCursor = new(p.cursors.Seal(p.list, last()))
	}
	return out
}

// AnswerForward is Answer for lists that only go forward, by cursor.
func (p Paging) AnswerForward(more bool, last func() []byte) api.Pagination {
	p.Page, p.Total = 0, false
	return p.Answer(more, 0, last)
}
