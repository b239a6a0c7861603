package auditdb

// These are the statements themselves, for the tests of plans.
var (
	ActionsQuery = actionsQuery
	SealEvents   = OfEvents.seal
)
