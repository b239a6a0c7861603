package overview

import "time"

// Minutes is the number of minutes that are counted separately; the last one is still in progress.
const Minutes = 60

// MostByMinute is the maximum number of letters, and of sagas of a part that is not rolled up, that
// are counted by minute. The newest are counted.
const MostByMinute = 10_000

// Minute is the activity in one minute. A nil number was not counted because there were too many items.
type Minute struct {
	From            time.Time
	Started, Failed *int64 // sagas created in it, and how many of these ended in a state other than completed
	Letters         *int64
}

// LastMinutes returns the period covered by the minutes counted at a given time.
func LastMinutes(now time.Time) (from, to time.Time) {
	to = now.UTC().Truncate(time.Minute).Add(time.Minute)
	return to.Add(-Minutes * time.Minute), to
}

// SagaPart is a subset of the sagas that is counted separately.
type SagaPart string

// Subsets of the sagas. Sagas created since the horizon are fresh; older ones are rolled up once
// they have ended.
const (
	RolledUp   SagaPart = "rolled_up"
	Fresh      SagaPart = "fresh"
	Unfinished SagaPart = "unfinished"
	GaveUp     SagaPart = "gave_up"
)

// SagaCount is the number of sagas of one part in one minute, which is identified by its number.
type SagaCount struct {
	Part            SagaPart
	Minute          int
	Started, Failed int64
}

// MinuteCounts contains the counts of a store. Except for the rolled-up part, at most the newest
// MostByMinute+1 items are counted of each part, and of letters.
type MinuteCounts struct {
	Sagas   []SagaCount
	Horizon int           // the minute since which sagas are fresh
	Letters map[int]int64 // by number of the minute
}

// Minutes returns the minutes since from. If a part has more sagas than were counted, the numbers of
// the minutes up to and including that of the oldest counted saga are unknown; for fresh sagas, only
// back to the horizon. The same holds for letters.
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
	first, letters := Minutes, int64(0) // the minute of the oldest counted letter
	for n, count := range c.Letters {
		first, letters = min(first, n), letters+count
	}
	for n := range all {
		m := &all[n]
		m.From = from.Add(time.Duration(n) * time.Minute)
		if !unknown(n) {
			m.Started, m.Failed = &started[n], &failed[n]
		}
		if letters <= MostByMinute || n > first {
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
