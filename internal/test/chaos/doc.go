// Package chaos holds no product code, only tests: the real binary on a real
// PostgreSQL, killed with SIGKILL, stopped and continued, while clients create,
// cancel and repeat, and participants fail in every way they know. Afterwards
// the participants' ledgers, the clients' notes and the database are compared,
// and every promise of requirements/invariants.md 2.2 that concerns a saga must
// have been kept.
//
// Two campaigns beside it do the same to dead letters and to job runs: there the
// workers are processes too, which note what they do by the machine's monotonic
// clock before they tell it, and the database itself writes down every move. J1 to
// J9 of the invariants must hold.
//
//	go test -run Chaos -v ./internal/test/chaos             about a minute
//	SKALD_CHAOS=long go test -run Chaos -v …           `make chaos`
//	go test -run JobRunsSurvive -v …                   about two minutes
//	SKALD_CHAOS=long go test -run JobRunsSurvive -v …  `make chaos-jobs`
//	SKALD_CHAOS_SEED=42 go test …                      the same dice again
//
// A seed repeats who does what and when; it cannot repeat how the machine
// schedules it. What a failed run leaves behind is in the directory it names:
// the ledger, the nodes' logs and the event log of what was done to them.
package chaos
