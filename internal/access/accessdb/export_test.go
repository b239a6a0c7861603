package accessdb

// KeyTable is held to the database's.
var KeyTable = keyTable
