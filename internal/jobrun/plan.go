package jobrun

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/skald-saga/skald/internal/jobrun/schedule"
)

// maxPlanned is the maximum number of slots in one plan, not counting late ones; the rest follows
// in the next plan.
const maxPlanned = 1000

// PlanSlots returns the runs for the slots of d after LastMaterializedAt up to until, and the time
// up to which it has planned (A-04, J8, S22). It depends only on the definition and the time, not
// on the stored next slot (F45).
//
// Slots that are later than the definition's grace period allows follow its misfire policy. Only
// the newest Spec.CatchUpLimit of them become rows, and the oldest row records the time since which
// slots were dropped. Slots during a pause are SKIPPED when they are due. During a pause, slots
// after its end are not created ahead of time.
func PlanSlots(d *Definition, s *schedule.Schedule, until time.Time, set Settings, m Moment) ([]Slot, Advance) {
	p := plan{d: d, s: s, set: set, m: m}
	grace := time.Duration(d.Spec.MisfireGraceMS) * time.Millisecond
	if grace == 0 {
		grace = set.Seconds(SkipLateAfter)
	}
	at := d.LastMaterializedAt
	if late := m.Now.Add(-grace - 1); at.Before(late) { // late by exactly the grace period is on time
		p.late(at, late)
		at = late
	}
	return p.slots, p.onTime(at, until)
}

type plan struct {
	d     *Definition
	s     *schedule.Schedule
	set   Settings
	m     Moment
	slots []Slot
}

// onTime adds the slots after at that are not late.
func (p *plan) onTime(at, until time.Time) Advance {
	a := Advance{Definition: p.d.ID, Version: p.d.Version, Until: at}
	ticks := p.s.Ticks(at, until, maxPlanned)
	full := len(ticks) == maxPlanned
	for _, t := range ticks {
		if p.pausedAt(t.At) && t.At.After(p.m.Now) {
			until, full = p.m.Now, false // it is unknown yet whether the slot will be skipped
			break
		}
		p.add(t.At, p.skipPaused(t.At))
		a.Until = t.At
	}
	if !full && a.Until.Before(until) {
		a.Until = until
	}
	if next, ok := p.s.Next(a.Until); ok {
		a.NextDueAt = &next.At
	}
	return a
}

// late adds the late slots, which are those in (from, to].
func (p *plan) late(from, to time.Time) {
	limit := cmp.Or(p.d.Spec.CatchUpLimit, DefaultCatchUp)
	ticks, more := newest(p.s, from, to, limit+1)
	if len(ticks) > limit { // the oldest row represents its own slot and all earlier ones
		more = more || len(ticks) > limit+1
		if p.d.Spec.Misfire != CatchUp {
			ticks, more = ticks[1:], true
		}
	}
	once := len(ticks) - 1 // the newest slot outside of the pause
	for once >= 0 && p.pausedAt(ticks[once].At) {
		once--
	}
	for i, t := range ticks {
		why := p.skipPaused(t.At)
		switch {
		case why != "":
		case p.d.Spec.Misfire == CatchUp:
			if len(ticks) > limit && i == 0 {
				why = fmt.Sprintf("late: the catch_up_limit of %d covers only newer slots", limit)
			}
		case p.d.Spec.Misfire == FireOnce && i == once:
		case p.d.Spec.Misfire == FireOnce:
			why = "late: only the newest of the missed slots runs"
		default:
			why = fmt.Sprintf("late: it was due at %s, and it is now %s", stamp(t.At), stamp(p.m.Now))
		}
		if i == 0 && more && why != "" {
			why += fmt.Sprintf("; earlier slots since %s are not recorded", stamp(from))
		}
		p.add(t.At, why)
	}
}

// newest returns the last slots in (from, to], up to limit, oldest first; more reports whether
// there are others before them. It does not enumerate all slots, because a job that runs every
// second may not have been planned for a year.
func newest(s *schedule.Schedule, from, to time.Time, limit int) (ticks []schedule.Tick, more bool) {
	for span := time.Duration(limit) * time.Second; ; span *= 2 {
		start := to.Add(-span)
		if span <= 0 || !start.After(from) { // <= 0: overflow after the range of a Duration, 292 years
			start = from
		}
		if start.Equal(from) || len(s.Ticks(start, to, limit+1)) > limit {
			return last(s, start, to, limit, start.After(from))
		}
	}
}

// last returns the same as newest, for a range that is cheap to enumerate because half of it did
// not contain too many slots.
func last(s *schedule.Schedule, from, to time.Time, limit int, more bool) ([]schedule.Tick, bool) {
	var ticks []schedule.Tick
	for {
		page := s.Ticks(from, to, limit)
		ticks = append(ticks, page...)
		if over := len(ticks) - limit; over > 0 {
			ticks, more = ticks[over:], true
		}
		if len(page) < limit {
			return ticks, more
		}
		from = page[len(page)-1].At
	}
}

// pausedAt reports whether a slot is within the pause.
func (p *plan) pausedAt(slot time.Time) bool {
	d := p.d
	return d.PausedAt != nil && !slot.Before(*d.PausedAt) && (d.PausedUntil == nil || slot.Before(*d.PausedUntil))
}

// skipPaused returns the reason why a slot is skipped because of the pause, or "" if the slot is
// not skipped.
func (p *plan) skipPaused(slot time.Time) string {
	if !p.pausedAt(slot) {
		return ""
	}
	return PausedReason(p.d.PauseReason)
}

// PausedReason returns the reason that is recorded for a slot skipped by a pause; reason is the
// reason for the pause.
func PausedReason(reason string) string {
	if reason == "" {
		return "paused"
	}
	return "paused: " + reason
}

// add adds the run of a slot. If there is a reason, the run is SKIPPED.
func (p *plan) add(slot time.Time, skipped string) {
	m := p.m
	key := TimeKey(p.d.ID, slot)
	m.Jitter = chance(key) // it belongs to the slot, so that any leader computes the same
	r := New(p.d, Request{Trigger: ByTime, Key: key, ScheduledFor: slot, By: p.d.UpdatedBy}, p.set, m)
	if skipped != "" {
		r.State, r.FinishedAt, r.AdmittedAt = Skipped, &m.Now, nil
	}
	p.slots = append(p.slots, Slot{Definition: p.d, Run: r, Reason: skipped})
}

// chance returns a number in [0,1) that is derived from a text.
func chance(of string) float64 {
	h := fnv.New64a()
	h.Write([]byte(of)) //nolint:errcheck // it never fails
	x := h.Sum64()
	x ^= x >> 33 // FNV's upper bits depend little on the last bytes
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}
