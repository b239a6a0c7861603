package saga

// The stories of this package's tests, for the tests of what package explain says of them.
var (
	Noon       = noon
	Happenings = happenings
	Started    = started
	Ahead      = startedAhead
	Lost       = lost
	Tell       = tell
	Happens    = happens
	Moments    = moments
	Damaged    = damaged
	Places     = places
	WithOutput = Instance.with
)
