#!/bin/sh
# Prints the directory for the temporary files of a test run: TMPDIR if it is set, otherwise an
# in-memory file system with enough room from which programs can be executed, otherwise /tmp. Tests
# create several hundred PostgreSQL data directories of a thousand files each, and creating and
# removing them on disk takes a tenth of the CPU time of the whole run.
set -eu

room_kb=8388608 # a run needs at most 3 GB, and twice that must be free

in_memory() {
	[ "$(uname -s)" = Linux ] && [ -d "$1" ] && [ -w "$1" ] || return 1
	[ "$(stat -f -c %T "$1")" = tmpfs ] || return 1
	[ "$(df -Pk "$1" | awk 'NR == 2 { print $4 }')" -ge "$room_kb" ] || return 1
	[ "$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)" -ge "$room_kb" ] || return 1
	# Containers often mount it with noexec.
	probe=$(mktemp "$1/skald-probe-XXXXXX") || return 1
	printf '#!/bin/sh\n' >"$probe"
	chmod 700 "$probe"
	status=0
	"$probe" 2>/dev/null || status=$?
	rm -f "$probe"
	return "$status"
}

if [ -n "${TMPDIR:-}" ]; then
	printf '%s\n' "$TMPDIR"
elif in_memory /dev/shm; then
	echo /dev/shm
else
	echo /tmp
fi
