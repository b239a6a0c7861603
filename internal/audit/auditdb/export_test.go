package auditdb

// What the tests of plans need: the very statements that the stores send.
var (
	ActionsQuery = actionsQuery
	SealEvents   = OfEvents.seal
)
