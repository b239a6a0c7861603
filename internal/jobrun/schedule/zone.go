package schedule

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// zones caches time zones. Loading a zone takes 9 µs and 5 kB, and a hundred thousand schedules
// share a handful of zones. Only existing zones are cached, of which there are about 600.
var zones sync.Map // name → *time.Location

// machine lists names in a machine's zone directory that are not IANA names, and that are missing
// or have another meaning on other machines.
var machine = []string{"Local", "localtime", "posixrules", "Factory"}

// zone returns the time zone with an IANA name, or nil. "" is UTC.
func zone(name string) *time.Location {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location)
	}
	if slices.Contains(machine, name) || strings.HasPrefix(name, "posix/") || strings.HasPrefix(name, "right/") {
		return nil
	}
	found, err := time.LoadLocation(name)
	if err != nil {
		return nil // the error contains no further information
	}
	zones.Store(strings.Clone(name), found)
	return found
}
