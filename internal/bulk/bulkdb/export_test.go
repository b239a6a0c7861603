package bulkdb

// SlotStates is the query with which backfills read slots.
var SlotStates = slotStates
