package principal

import "strings"

// jobRights are the permissions for Skald's own commands. They equal the permissions of the
// operations with the same effect: starting a run of a command, in whatever way, requires its
// permission.
var jobRights = []struct {
	command string
	need    Permission
	beyond  Permission // for a run that may touch more than dlq.bulk_limit letters; "": the same
}{
	{"system.dlq.redrive", DLQWrite, DLQAdmin}, // POST /dlq/redrives
	{"system.dlq.archive", DLQAdmin, ""},
	{"system.dlq.purge_archive", DLQAdmin, ""},
	{"system.jobs.log_offload", JobsAdmin, ""},
	{"system.jobs.retention", JobsAdmin, ""},
	{"system.invariants", JobsWrite, ""}, // read only
	{"system.reseal", JobsAdmin, ""},
}

// ForJob returns the permission that a run of a command requires in addition to the permission to
// start runs. Only Skald's own commands require one. If a command of Skald is missing from the
// table, it requires jobs:admin.
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
