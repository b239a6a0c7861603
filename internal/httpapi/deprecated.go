package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

// Dates in the contract for the end of an operation: x-deprecated-at for a deprecated operation,
// and x-sunset once the date of its removal is known (docs/stability.md).
const (
	deprecatedAt = "x-deprecated-at"
	sunset       = "x-sunset"
)

// announcement returns the headers for the responses of a deprecated operation: Deprecation (RFC
// 9745) and, once a date is set, Sunset (RFC 8594). It returns nil if the operation is not
// deprecated.
func announcement(op *openapi3.Operation) (http.Header, error) {
	since, dated, err := dateOf(op, deprecatedAt)
	if err != nil || op.Deprecated != dated {
		return nil, fmt.Errorf("deprecated is %v, so %s must say since when: %w", op.Deprecated, deprecatedAt, err)
	}
	end, ends, err := dateOf(op, sunset)
	switch {
	case err != nil:
		return nil, err
	case !dated && ends || ends && !end.After(since):
		return nil, fmt.Errorf("%s must be after %s", sunset, deprecatedAt)
	case !dated:
		return nil, nil
	}
	h := http.Header{"Deprecation": {"@" + strconv.FormatInt(since.Unix(), 10)}}
	if ends {
		h.Set("Sunset", end.Format(http.TimeFormat))
	}
	return h, nil
}

func dateOf(op *openapi3.Operation, name string) (at time.Time, there bool, err error) {
	v, there := op.Extensions[name]
	if !there {
		return at, false, nil
	}
	text, _ := v.(string)
	if at, err = time.Parse(time.DateOnly, text); err != nil {
		err = fmt.Errorf("%s must be a date: %w", name, err)
	}
	return at, true, err
}
