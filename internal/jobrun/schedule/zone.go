package schedule

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// zones has the zones that were asked for so far: reading one takes 9 µs and
// 5 kB, and a hundred thousand schedules share a handful. Only zones that exist
// are kept, which are some 600.
var zones sync.Map // name → *time.Location

// machine are names that a machine's zone directory has beside the IANA's, and
// that mean something else elsewhere or nothing at all.
var machine = []string{"Local", "localtime", "posixrules", "Factory"}

// zone returns the time zone of an IANA name, nil when there is none. "" is UTC.
func zone(name string) *time.Location {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location)
	}
	if slices.Contains(machine, name) || strings.HasPrefix(name, "posix/") || strings.HasPrefix(name, "right/") {
		return nil
	}
	found, err := time.LoadLocation(name)
	if err != nil {
		return nil // it says no more than that
	}
	zones.Store(strings.Clone(name), found)
	return found
}
