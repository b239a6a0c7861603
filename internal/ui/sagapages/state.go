package sagapages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// state is the part of a saga's page that can be determined without reading the saga's logs.
type state struct {
	tag     string    // the saga's ETag, including its note
	until   time.Time // until then, the page is accurate enough for a saga with this tag
	changed time.Time // when the saga last changed
	ended   bool
}

// How long a page stays valid while the saga keeps its tag. In that time, the drawing of an
// unfinished saga shifts by a hundredth of its width. A few other things change independently of
// the saga: the lease of its node and the state of its dead letter.
const (
	leastHold = time.Second
	mostHold  = 30 * time.Second // for a saga that continues
	endedHold = time.Minute
)

func stateOf(s *client.Saga, tag string, now time.Time) state {
	hold := endedHold
	if s.CompletedAt == nil {
		hold = min(max(leastHold, now.Sub(s.CreatedAt)/100), mostHold)
	}
	return state{tag: tag, until: now.Add(hold), changed: s.UpdatedAt, ended: s.CompletedAt != nil}
}

// refresh returns the number of seconds after which the browser refreshes the page. It is a tenth
// of the time since the last change, but at most five seconds while the saga is unfinished and
// fifteen after its end.
func (s state) refresh(now time.Time) int {
	most := 5
	if s.ended {
		most = 15
	}
	return min(max(1, int(now.Sub(s.changed).Seconds()/10)), most)
}

// stateSep separates the parts of a state.
const stateSep = "@"

// String formats the state as used in the page's ETag.
func (s state) String() string {
	ended := ""
	if s.ended {
		ended = "ended"
	}
	return strings.Join([]string{strings.Trim(s.tag, `"`), strconv.FormatInt(s.until.UnixMilli(), 10),
		strconv.FormatInt(s.changed.UnixMilli(), 10), ended}, stateSep)
}

// versioned reports whether the page shows nothing that changes without the saga, or is out of date
// only briefly when it does.
func versioned(v *web.Visit) bool {
	q := v.URL.Query()
	return slices.Contains([]string{"", "steps", "attempts", "events", "data", "json"}, q.Get("tab")) && !q.Has("step") &&
		!q.Has("attempt")
}

// hadBefore returns the state of the page that the browser has, provided that this page is still
// accurate enough if the saga has not changed.
func hadBefore(v *web.Visit) (s state) {
	part := strings.Split(v.Had(), stateSep)
	if len(part) != 4 || !versioned(v) {
		return state{}
	}
	var until, changed int64
	if _, err := fmt.Sscan(part[1]+" "+part[2], &until, &changed); err != nil || v.Now.UnixMilli() >= until {
		return state{}
	}
	return state{tag: `"` + part[0] + `"`, until: time.UnixMilli(until), changed: time.UnixMilli(changed),
		ended: part[3] != ""}
}
