package rest

import (
	"strconv"
	"strings"

	"github.com/skald-saga/skald/internal/fault"
)

// ETagOf returns the strong entity tag of a resource: its version in quotes.
func ETagOf(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// ArchivedETag returns the entity tag of an archived saga, whose representation differs from
// that of the live saga of the same version.
func ArchivedETag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `-archived"` }

// tags parses If-Match or If-None-Match: "*", or entity tags separated by commas.
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

// IfMatch reports whether a change of a resource may proceed, by the strong comparison of
// RFC 9110 13.1.1. Without the header it may.
func IfMatch(header *string, version int64) (bool, error) { return IfMatchTag(header, ETagOf(version)) }

// IfMatchTag is IfMatch for a resource whose entity tag has more than its version.
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

// ifNoneMatch reports whether the client already has the resource, by the weak comparison
// of RFC 9110 13.1.2.
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

// Stale returns the fault of an If-Match that names another version than the current one.
func Stale(code, what string, present int64) error {
	return fault.New(fault.Precondition, code, "the %s is at version %d, which does not match If-Match: read it again", what, present)
}
