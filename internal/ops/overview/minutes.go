package overview

import "time"

// Minutes is how many minutes are counted one by one; the last one is not over.
const Minutes = 60

// MostByMinute is how many letters, and how many sagas of a part that is not rolled up, are counted by the minute: the
// newest.
const MostByMinute = 10_000

// Minute is what happened in one minute. A number that is nil was not counted: there is too much of it.
type Minute struct {
	From            time.Time
	Started, Failed *int64 // sagas that were created in it, and those of them that have ended otherwise than completed
	Letters         *int64
}

// LastMinutes returns the period of the minutes that are counted at a time.
func LastMinutes(now time.Time) (from, to time.Time) {
	to = now.UTC().Truncate(time.Minute).Add(time.Minute)
	return to.Add(-Minutes * time.Minute), to
}

// SagaPart is a part of the sagas, all of which are counted together.
type SagaPart string

// Parts of the sagas. Those since the horizon are fresh; before it, they are rolled up when they have ended.
const (
	RolledUp   SagaPart = "rolled_up"
	Fresh      SagaPart = "fresh"
	Unfinished SagaPart = "unfinished"
	GaveUp     SagaPart = "gave_up"
)

// SagaCount counts the sagas of one part in one minute, by its number.
type SagaCount struct {
	Part            SagaPart
	Minute          int
	Started, Failed int64
}

// MinuteCounts is what a store has counted: of each part but the rolled up, and of letters, at most one more than
// MostByMinute, the newest.
type MinuteCounts struct {
	Sagas   []SagaCount
	Horizon int           // the minute since which sagas are fresh
	Letters map[int]int64 // by the number of the minute
}

// Minutes returns the minutes since from. Where a part has more than were counted, the minutes that lack some of it
// are not known: of fresh sagas those from the horizon on, else all before.
func (c *MinuteCounts) Minutes(from time.Time) []Minute {
	all := make([]Minute, Minutes)
	started, failed := make([]int64, Minutes), make([]int64, Minutes)
	total, oldest := map[SagaPart]int64{}, map[SagaPart]int{}
	for _, n := range c.Sagas {
		if n.Minute < 0 || n.Minute >= Minutes {
			continue
		}
		started[n.Minute] += n.Started
		failed[n.Minute] += n.Failed
		if at, known := oldest[n.Part]; !known || n.Minute < at {
			oldest[n.Part] = n.Minute
		}
		total[n.Part] += n.Started
	}
	unknown := func(minute int) bool {
		for part, at := range oldest {
			if part != RolledUp && total[part] > MostByMinute && minute <= at && (part != Fresh || minute >= c.Horizon) {
				return true
			}
		}
		return false
	}
	first, letters := Minutes, int64(0) // the minute of the oldest letter that was counted
	for n, count := range c.Letters {
		first, letters = min(first, n), letters+count
	}
	for n := range all {
		m := &all[n]
		m.From = from.Add(time.Duration(n) * time.Minute)
		if !unknown(n) {
			m.Started, m.Failed = &started[n], &failed[n]
		}
		if letters <= MostByMinute || n >= first {
			m.Letters = new(c.Letters[n])
		}
	}
	return all
}

// Quiet reports whether nothing happened in any of the minutes.
func (o *Overview) Quiet() bool {
	for i := range o.Minutes {
		for _, n := range []*int64{o.Minutes[i].Started, o.Minutes[i].Letters} {
			if n == nil || *n != 0 {
				return false
			}
		}
	}
	return true
}
