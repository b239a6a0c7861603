package saga

import "time"

// Storage is what the tables of a store take and how they are used (seed 2,
// 监控和维护): estimates of the database's own statistics, of all tenants together.
type Storage struct {
	DatabaseBytes int64   // of the whole database
	Tables        []Table // largest first
}

// Table is one table of a store. TotalBytes is what all its parts take.
type Table struct {
	Name                                          string
	TotalBytes, HeapBytes, ToastBytes, IndexBytes int64
	LiveTuples, DeadTuples, ModifiedSinceAnalyze  int64
	LastVacuum, LastAutovacuum                    *time.Time // nil: never, as far as statistics go
	LastAnalyze, LastAutoanalyze                  *time.Time
	Indexes                                       []Index // by name
}

// Index is one index of a table. Its counts grow since the database's
// statistics were last reset.
type Index struct {
	Name                             string
	Bytes                            int64
	Unique                           bool // needed even if it is never scanned
	Valid                            bool // false: its concurrent building failed
	Scans, TuplesRead, TuplesFetched int64
}
