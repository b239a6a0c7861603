#!/bin/sh
# Prints the packages that `make race` tests under the race detector, one per line: packages whose
# own files, not counting tests, start goroutines or import sync, and so share memory. The list is
# derived, so that it includes a package as soon as it begins to do so.
#
# A package that shares only the result of sync.OnceValue is not included, because one goroutine
# computes it and all others wait. If several goroutines use such a package at once, the tests of
# its callers run under the detector; for example, the engine's tests cover expressions.
#
# Excluded are packages that only tests use; three packages whose tests run the whole program, the
# parts of which are raced one by one; and two packages of rules, whose tests take more than 100 s
# under the detector: schedules share one sync.Map of time zones, and a workflow's plan is compiled
# once, which the engine's tests cover.
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
