// Package chaos contains only tests: the real binary on a real PostgreSQL, killed with SIGKILL,
// stopped and continued, while clients create, cancel and repeat, participants fail in every
// way they can, and a gateway before them refuses calls that repeat others. Afterwards the
// participants' ledgers, the clients' records and the database are compared, and every promise
// of requirements/invariants.md 2.2 about sagas must have been kept.
//
// Another campaign lets participants be ill, each in its way, and holds outage mode to what it
// promises. Two others do the same to dead letters and to job runs. Workers of job runs are
// processes too, which record what they do by the machine's monotonic clock before they report
// it, and the database itself records every move. J1 to J9 of the invariants must hold.
//
//	go test -run Chaos -v ./internal/test/chaos             about a minute
//	TEST_CHAOS=long go test -run Chaos -v …                 `make chaos`
//	go test -run JobRunsSurvive -v …                         about two minutes
//	TEST_CHAOS=long go test -run JobRunsSurvive -v …        `make chaos-jobs`
//	OUTAGE_SAGAS=20000 OUTAGE_SECONDS=60 go test -run AnOutage …  `make outage`
//	TEST_CHAOS_SEED=42 go test …                            the same random choices again
//
// A seed repeats who does what and when; it cannot repeat how the machine schedules it. A
// failed run keeps its directory and prints its path: the ledger, the nodes' logs and the event
// log of the faults are there.
package chaos
