// Package chaos contains only tests. They run the real binary on a real PostgreSQL and kill it with
// SIGKILL, stop it and continue it, while clients create, cancel and repeat sagas, participants
// fail in every way they can, and a gateway in front of the participants refuses repeated calls.
// Afterwards the tests compare the participants' ledgers, the clients' records and the database:
// every promise of requirements/invariants.md 2.2 about sagas must have been kept.
//
// Another campaign makes participants unhealthy, each in its own way, and checks that outage mode
// keeps its promises. Two others do the same for dead letters and job runs. Job run workers are
// processes too: they record what they do, by the machine's monotonic clock, before they report it,
// and the database itself records every state change. Invariants J1 to J9 must hold.
//
//	go test -run Chaos -v ./internal/test/chaos             about a minute
//	TEST_CHAOS=long go test -run Chaos -v …                 `make chaos`
//	go test -run JobRunsSurvive -v …                         about two minutes
//	TEST_CHAOS=long go test -run JobRunsSurvive -v …        `make chaos-jobs`
//	OUTAGE_SAGAS=20000 OUTAGE_SECONDS=60 go test -run AnOutage …  `make outage`
//	TEST_CHAOS_SEED=42 go test …                            the same random choices as before
//
// A seed repeats who does what and when; it can't repeat how the machine schedules it. A failed run
// keeps its directory and prints its path. The directory contains the ledger, the nodes' logs and
// the log of injected faults.
package chaos
