package bulkdb

// SlotStates is the query of backfills for slots.
var SlotStates = slotStates
