package saga

// The stories of this package's tests, for the tests of package explain.
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
