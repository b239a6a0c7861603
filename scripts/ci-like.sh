#!/bin/sh
# Runs .ci/run in a clean clone of the last commit while other processes use every core, as on a
# shared machine. A change that passes here does not depend on luck. Each run executes all tests,
# including those whose results are cached.
#
#   scripts/ci-like.sh [RUNS]     three runs by default; stops at the first failure
#
# LOAD is the number of busy processes (default 2). LOAD=0 measures an otherwise idle machine.
set -eu
cd "$(dirname "$0")/.."
runs=${1:-3}
load=${LOAD:-2}
[ "$load" -eq 0 ] || sh scripts/programs.sh stress-ng

dir=$(mktemp -d)
stress=
clean() {
	[ -z "$stress" ] || kill "$stress" 2>/dev/null || true
	rm -rf "$dir"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

git diff --quiet HEAD || echo "what is not committed is not tested" >&2
git clone -q . "$dir/skald"
if [ "$load" -gt 0 ]; then
	stress-ng --quiet --cpu "$load" &
	stress=$!
fi
for run in $(seq "$runs"); do
	begun=$(date +%s)
	status=0
	(cd "$dir/skald" && GOFLAGS="${GOFLAGS:-} -count=1" CI=true bash .ci/run </dev/null) >"$dir/log" 2>&1 || status=$?
	echo "run $run of $runs: exit status $status after $(($(date +%s) - begun)) s"
	if [ "$status" -ne 0 ]; then
		log=$(mktemp)
		cp "$dir/log" "$log"
		grep -nE '^(---|FAIL|panic:|make.*Error)|\.go:[0-9]+:' "$log" | tail -n 40 >&2
		echo "all of it is in $log" >&2
		exit 1
	fi
done
