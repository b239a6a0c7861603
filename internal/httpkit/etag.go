package httpkit

import (
	"slices"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/internal/fault"
)

// ETagOf returns the strong entity tag of a resource: its version in quotes.
func ETagOf(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// ArchivedETag returns the entity tag of an archived saga, whose representation differs from
// that of the live saga of the same version.
func ArchivedETag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `-archived"` }

// Marks in an entity tag that separate the version of a resource from the other parts of its
// representation.
const (
	notedMark = "-noted-" // the version of a saga's note
	heldMark  = "-held-"  // what holds a letter, and a digest of what its policy hides
)

// NotedETag returns the entity tag of a saga with a note. The note's version is 0 while there is no
// note.
func NotedETag(etag string, note int64) string {
	if note == 0 {
		return etag
	}
	return marked(etag, notedMark, strconv.FormatInt(note, 10))
}

// ShownETag returns the entity tag of a letter whose representation depends on more than its
// version: on what holds it and on what its policy hides. "" means that neither applies.
func ShownETag(etag, by string) string {
	if by == "" {
		return etag
	}
	return marked(etag, heldMark, by)
}

func marked(etag, mark, part string) string { return strings.TrimSuffix(etag, `"`) + mark + part + `"` }

// WithoutNote removes the note's part from an If-Match, so that a changed note does not make
// actions on the saga fail.
func WithoutNote(header *string) *string { return without(header, notedMark) }

// WithoutHold removes the part that ShownETag added from an If-Match, so that holding, releasing or
// hiding does not make actions on the letter fail.
func WithoutHold(header *string) *string { return without(header, heldMark) }

func without(header *string, mark string) *string {
	if header == nil || !strings.Contains(*header, mark) {
		return header
	}
	list := strings.Split(*header, ",")
	for i, tag := range list {
		if of, _, has := strings.Cut(tag, mark); has {
			list[i] = of + `"`
		}
	}
	return new(strings.Join(list, ","))
}

// IfNoteMatches reports whether a note may be changed, that is, whether an If-Match names the
// note's current version. It ignores the part about the saga.
func IfNoteMatches(header *string, note int64) (bool, error) {
	return ifMatch(header, func(tag string) bool {
		_, of, noted := strings.Cut(tag, notedMark)
		return !strings.HasPrefix(tag, "W/") && (noted && of == strconv.FormatInt(note, 10)+`"` || !noted && note == 0)
	})
}

// tags parses If-Match or If-None-Match: "*", or entity tags separated by commas.
func tags(name, header string) (list []string, anything bool, err error) {
	if strings.TrimSpace(header) == "*" {
		return nil, true, nil
	}
	for part := range strings.SplitSeq(header, ",") {
		tag := strings.TrimSpace(part)
		opaque := strings.TrimPrefix(tag, "W/")
		if len(opaque) < 2 || opaque[0] != '"' || opaque[len(opaque)-1] != '"' {
			return nil, false, BadHeader(name, "invalid", `must be "*" or entity tags in double quotes`)
		}
		list = append(list, tag)
	}
	return list, false, nil
}

// IfMatch reports whether a change to a resource may proceed, using the strong comparison of RFC
// 9110 13.1.1. Without the header, it may.
func IfMatch(header *string, version int64) (bool, error) { return IfMatchTag(header, ETagOf(version)) }

// IfMatchTag is IfMatch for a resource whose entity tag consists of more than its version.
func IfMatchTag(header *string, etag string) (bool, error) {
	return ifMatch(header, func(tag string) bool { return tag == etag })
}

// ifMatch reports whether an If-Match is *, contains a matching tag, or is absent.
func ifMatch(header *string, fits func(tag string) bool) (bool, error) {
	if header == nil {
		return true, nil
	}
	list, anything, err := tags("If-Match", *header)
	return err == nil && (anything || slices.ContainsFunc(list, fits)), err
}

// ifNoneMatch reports whether the client already has the resource, using the weak comparison of RFC
// 9110 13.1.2.
func ifNoneMatch(header *string, etag string) (has bool, err error) {
	if header == nil {
		return false, nil
	}
	list, anything, err := tags("If-None-Match", *header)
	if err != nil || anything {
		return anything, err
	}
	for _, tag := range list {
		if strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(etag, "W/") {
			return true, nil
		}
	}
	return false, nil
}

// Stale returns the fault for an If-Match that does not name the current version.
func Stale(code, what string, present int64) error {
	return fault.New(fault.Precondition, code, "the %s is at version %d, which does not match If-Match: read it again", what, present)
}
