package auditdb

// The statements themselves, for the tests of plans.
var (
	ActionsQuery = actionsQuery
	SealEvents   = OfEvents.seal
)
