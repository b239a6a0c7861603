// Package storage describes how much of the database is used, and for what.
package storage

import "time"

// Storage is the size and usage of a store's tables (seed 2, 监控和维护) for all tenants together,
// estimated from the database's statistics.
type Storage struct {
	DatabaseBytes int64   // size of the whole database
	Tables        []Table // largest first
	// Snapshot is the oldest snapshot that any session of the server holds; nil means that the
	// engine's role cannot see the sessions of other logins.
	Snapshot *Snapshot
}

// Snapshot is a snapshot of a session. PostgreSQL cannot remove row versions that became obsolete
// after it was taken.
type Snapshot struct {
	Age          time.Duration // age of the transaction that holds it; 0: no transaction is open
	Transactions int64         // transactions that have begun since
}

// Table is one table of a store. TotalBytes includes its indexes and TOAST data.
type Table struct {
	Name                                          string
	TotalBytes, HeapBytes, ToastBytes, IndexBytes int64
	LiveTuples, DeadTuples, ModifiedSinceAnalyze  int64
	LastVacuum, LastAutovacuum                    *time.Time // nil: never, according to the statistics
	LastAnalyze, LastAutoanalyze                  *time.Time
	Indexes                                       []Index // ordered by name
}

// Index is one index of a table. Its counts start at the last reset of the database's statistics.
type Index struct {
	Name                             string
	Bytes                            int64
	Unique                           bool // needed even if it is never scanned
	Valid                            bool // false: building it concurrently failed
	Scans, TuplesRead, TuplesFetched int64
}
