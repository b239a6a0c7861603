package accessdb

// The tests compare these tables with those of the database.
var (
	KeyTable     = keyTable
	SessionTable = sessionTable
)
