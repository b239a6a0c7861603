#!/bin/sh
# Prints the packages that `make race` tests under the race detector, one a line: those whose own files, not their
# tests, start goroutines or import sync, and so share memory. It is derived, so that a package which begins to do
# so is raced from that day on.
#
# A package that shares only what sync.OnceValue makes is not one of them: one goroutine makes it, and all others wait.
# Where several use it at once, the tests of those who do are raced: expressions by the engine, for example.
#
# Left out are the packages that only tests use; three whose tests run the whole program, the parts
# of which are raced one by one; and two of rules, whose tests take more than 100 s under the detector: those of
# schedules, which share one sync.Map of time zones, and those of workflows, whose plan is compiled once, which the tests
# of the engine race.
set -eu
cd "$(dirname "$0")/.."
left_out='/cmd/skald$|/internal/app$|/internal/app/demo$|/internal/jobrun/schedule$|/internal/saga/workflow$'
for_tests='/internal/test/|/vaulttest$'
shares='\<sync\.[A-Z][A-Za-z]*|"sync/atomic"|"golang\.org/x/sync/|^[[:space:]]*go (func\(|[A-Za-z_.]+\()'

${GO:-go} list -f '{{$p := .ImportPath}}{{$d := .Dir}}{{range .GoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}' ./... |
	grep . |
	while read -r package file; do
		if grep -oE "$shares" "$file" | grep -qvxE 'sync\.Once(Func|Values?)'; then
			echo "$package"
		fi
	done |
	sort -u | grep -vE "$left_out|$for_tests"
