package accessdb

// The tables are compared with those of the database.
var (
	KeyTable     = keyTable
	SessionTable = sessionTable
)
