package sweepdb

// SlotStates is what backfills ask of slots.
const SlotStates = slotStates

// What the sweeps of job runs look with.
const (
	FindKeys      = findKeys
	KeyCandidates = keyCandidates
	FindReady     = findReady
	CountBacklog  = countBacklog
	DueDefs       = dueDefinitions
	AdvanceDefs   = advanceDefinitions
)

// SweepFinds are what the sweeps that move or end runs look with; $1 is a limit,
// $2, if there is one, a duration.
var SweepFinds = map[string]string{
	"orphan": orphanUnstarted.find, "give up": orphanUnconfirmed.find, "doubt": doubtSilent.find, "lose": endLost.find,
	"time out": endOverdue.find, "end canceled": endStubborn.find, "end unwanted": endUnwanted.find,
}
