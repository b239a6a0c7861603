package schedule

import "time"

const (
	day = 24 * 60 * 60 // seconds

	// reach is the maximum distance, in seconds, at which a clock change can have an effect. No
	// zone is more than 16 hours from UTC, and none has ever changed by more than 24 hours.
	reach = 26 * 60 * 60

	earliest = -62135596800 // Unix seconds of 0001-01-01T00:00:00Z
	latest   = 253402300800 // 10000-01-01T00:00:00Z, which RFC 3339 cannot express

	wallForm = "2006-01-02T15:04:05"
)

// walk yields the slots strictly after the given time, in order, until yield returns false. With
// tell it also yields the times that are lost in gaps.
func (s *Schedule) walk(after time.Time, tell bool, yield func(Tick) bool) {
	u := max(after.Unix(), earliest-1) // Unix rounds down, so the next whole second is after the given time
	if u >= latest {
		return
	}
	u = max(u+1, s.from)
	if s.every > 0 {
		s.walkInterval(u, yield)
		return
	}
	for u < min(s.to, latest) {
		next, more := s.walkSpan(s.spanAt(u), u, tell, yield)
		if !more {
			return
		}
		u = next
	}
}

func (s *Schedule) walkInterval(u int64, yield func(Tick) bool) {
	n := (u - s.anchor) / s.every
	if (u-s.anchor)%s.every > 0 {
		n++
	}
	for at := s.anchor + n*s.every; at < min(s.to, latest); at += s.every {
		if !yield(Tick{At: time.Unix(at, 0).UTC(), LocalTime: time.Unix(at, 0).In(s.zone).Format(wallForm)}) {
			return
		}
	}
}

// span is a period without clock changes, from start until before end, in Unix seconds. During it
// the wall clock is offset seconds ahead of UTC. The next span may have the same offset.
type span struct{ start, end, offset int64 }

// spanAt returns the span that contains u, so its end is after u.
func (s *Schedule) spanAt(u int64) span {
	t := time.Unix(u, 0).In(s.zone)
	p := span{start: earliest - reach, end: latest + reach}
	_, offset := t.Zone()
	p.offset = int64(offset)
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		p.start = start.Unix()
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	if p.end <= u {
		// After the end of a zone's table, when its rule applies, Go ends each year after 365 days,
		// which in leap years is before December 31 (go1.26).
		p.end = max(p.end+day, u+1)
	}
	return p
}

// walkSpan yields the slots of a span from u on, and returns the time at which to continue.
func (s *Schedule) walkSpan(p span, u int64, tell bool, yield func(Tick) bool) (next int64, more bool) {
	emit := func(at, wall int64, note Note) bool {
		return at < s.to &&
			yield(Tick{At: time.Unix(at, 0).UTC(), Note: note, LocalTime: time.Unix(wall, 0).UTC().Format(wallForm)})
	}
	// Wall-clock times are also in seconds, counted as if they were UTC.
	from := u + p.offset
	shown := from // earlier wall-clock times have already been shown
	if u-p.start < reach {
		before := p.start + s.spanAt(p.start-1).offset
		shown = max(shown, before)
		if u == p.start && before < from &&
			!s.walkGap(before, from, tell, func(wall int64, note Note) bool { return emit(u, wall, note) }) {
			return 0, false
		}
	}
	if !s.realTime && !s.repeatBoth {
		from = shown
	}
	for {
		wall, ok := s.slot(from)
		if !ok {
			return 0, false
		}
		if wall >= p.end+p.offset {
			if from >= p.end+p.offset-reach {
				return p.end, true // at the end of the span the clock may go back to before from
			}
			// No slot comes before wall, so the spans until then can be skipped.
			return max(p.end, wall-reach), true
		}
		note := Note("")
		switch {
		case wall < shown:
			note = Repeated
		case !s.realTime && !s.repeatBoth && s.showsAgain(p, wall):
			note = RepetitionLeftOut
		}
		if !emit(wall-p.offset, wall, note) {
			return 0, false
		}
		from = wall + 1
	}
}

// walkGap yields the slots for the wall-clock times from before to until, which do not exist.
// The times that would fire at the end of the gap form a single slot, or none if a slot is due at
// that moment anyway.
func (s *Schedule) walkGap(before, until int64, tell bool, yield func(int64, Note) bool) bool {
	switch moves := !s.realTime && !s.skipGaps; {
	case moves:
		wall, ok := s.slot(before)
		if !ok || wall >= until {
			return true
		}
		if due, _ := s.slot(until); due == until {
			return true
		}
		return yield(wall, MovedGap)
	case tell && s.tellGaps:
		for wall, ok := s.slot(before); ok && wall < until; wall, ok = s.slot(wall + 1) {
			if !yield(wall, SkippedGap) {
				return false
			}
		}
	}
	return true
}

// showsAgain reports whether the wall clock goes back at the end of the span and shows this time
// for a second time.
func (s *Schedule) showsAgain(p span, wall int64) bool {
	return wall >= p.end+p.offset-reach && p.end < latest && wall >= p.end+s.spanAt(p.end).offset
}

// slot returns the first wall-clock time from wall on at which the schedule is due.
func (s *Schedule) slot(wall int64) (int64, bool) {
	first, found := int64(0), false
	for i := range s.programs {
		if at, ok := s.programs[i].next(wall); ok && (!found || at < first) {
			first, found = at, true
		}
	}
	return first, found
}

// Note tells how a clock change affected a slot.
type Note string

// These are the notes. Most slots have none.
const (
	MovedGap          Note = "moved_gap"           // LocalTime does not exist that day; fires at the end of the gap
	SkippedGap        Note = "skipped_gap"         // LocalTime does not exist that day; does not fire. In previews only
	Repeated          Note = "repeated"            // the wall clock shows LocalTime for the second time
	RepetitionLeftOut Note = "repetition_left_out" // the wall clock will show LocalTime once more, without a slot
)

// Tick is one slot of a schedule.
type Tick struct {
	At        time.Time // UTC, whole seconds
	Note      Note
	LocalTime string // the corresponding wall-clock time: 2026-03-08T02:30:00
}
