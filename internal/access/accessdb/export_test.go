package accessdb

// KeyTable is compared with the database's table.
var KeyTable = keyTable
