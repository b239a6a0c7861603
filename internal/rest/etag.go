package rest

import (
	"strconv"
	"strings"

	"github.com/skald-saga/skald/internal/fault"
)

// ETagOf is the strong entity tag of a resource: its version in quotes.
func ETagOf(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// ArchivedETag is that of an archived saga, which looks different from the live
// saga of the same version.
func ArchivedETag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `-archived"` }

// tags reads If-Match or If-None-Match: "*", or entity tags with commas.
func tags(name, header string) (list []string, anything bool, err error) {
	if strings.TrimSpace(header) == "*" {
		return nil, true, nil
	}
	for part := range strings.SplitSeq(header, ",") {
		tag := strings.TrimSpace(part)
		opaque := strings.TrimPrefix(tag, "W/")
		if len(opaque) < 2 || opaque[0] != '"' || opaque[len(opaque)-1] != '"' {
			return nil, false, BadParameter(name, "invalid", `must be "*" or entity tags in double quotes`)
		}
		list = append(list, tag)
	}
	return list, false, nil
}

// IfMatch tells whether a change of a resource may go on, by the strong
// comparison of RFC 9110 13.1.1. Without the header it may.
func IfMatch(header *string, version int64) (bool, error) { return IfMatchTag(header, ETagOf(version)) }

// IfMatchTag is IfMatch for a resource whose entity tag says more than its version.
func IfMatchTag(header *string, etag string) (bool, error) {
	if header == nil {
		return true, nil
	}
	list, anything, err := tags("If-Match", *header)
	if err != nil || anything {
		return anything, err
	}
	for _, tag := range list {
		if tag == etag {
			return true, nil
		}
	}
	return false, nil
}

// ifNoneMatch tells whether the client has the resource already, by the weak
// comparison of RFC 9110 13.1.2.
func ifNoneMatch(header *string, etag string) (has bool, err error) {
	if header == nil {
		return false, nil
	}
	list, anything, err := tags("If-None-Match", *header)
	if err != nil || anything {
		return anything, err
	}
	for _, tag := range list {
		if strings.TrimPrefix(tag, "W/") == etag {
			return true, nil
		}
	}
	return false, nil
}

// Stale is the answer to an If-Match that names another version.
func Stale(code, what string, present int64) error {
	return fault.New(fault.Precondition, code, "the %s is at version %d, which does not match If-Match: read it again", what, present)
}
