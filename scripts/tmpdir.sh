#!/bin/sh
# Prints the directory for the temporary files of a test run: TMPDIR if that is set, else
# a file system in memory with room for them where programs may run, else /tmp. Tests make
# some hundred data directories of PostgreSQL, of a thousand files each, and to make and
# remove them on a disk takes a tenth of the CPU time of the whole run.
set -eu

room_kb=8388608 # a run needs 3 GB at most; what it takes must be free twice

in_memory() {
	[ "$(uname -s)" = Linux ] && [ -d "$1" ] && [ -w "$1" ] || return 1
	[ "$(stat -f -c %T "$1")" = tmpfs ] || return 1
	[ "$(df -Pk "$1" | awk 'NR == 2 { print $4 }')" -ge "$room_kb" ] || return 1
	[ "$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)" -ge "$room_kb" ] || return 1
	# Containers often mount it without the right to execute.
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
