package access

import "strings"

// jobRights is what Skald's own commands do, as permissions of the operations that
// do the same: whoever makes a run of one, by whatever way, needs it.
var jobRights = []struct {
	command string
	need    Permission
	beyond  Permission // of a run that may touch more than dlq.bulk_limit letters; "": the same
}{
	{"system.dlq.redrive", DLQWrite, DLQAdmin}, // POST /dlq/redrives
	{"system.dlq.archive", DLQAdmin, ""},
	{"system.dlq.purge_archive", DLQAdmin, ""},
	{"system.jobs.log_offload", JobsAdmin, ""},
	{"system.jobs.retention", JobsAdmin, ""},
	{"system.invariants", JobsWrite, ""}, // it changes nothing
}

// ForJob returns the permission that a run of a command needs, beyond that of
// making runs at all: none but for Skald's own commands. One that the table does not
// have needs jobs:admin.
func ForJob(command string, beyond bool) (need Permission, asked bool) {
	if !strings.HasPrefix(command, "system.") {
		return "", false
	}
	for _, r := range jobRights {
		switch {
		case r.command != command:
		case beyond && r.beyond != "":
			return r.beyond, true
		default:
			return r.need, true
		}
	}
	return JobsAdmin, true
}
