#!/bin/sh
# Builds the program of the previous version, which is the commit in
# internal/test/chaos/testdata/previous, and prints its path. Exit status 3 means that there is no
# history here, as in a shallow clone.
set -eu
cd "$(dirname "$0")/.."
commit=$(cat internal/test/chaos/testdata/previous)
dir=$(pwd)/.skald/previous
if [ ! -x "$dir/$commit" ]; then
	git cat-file -e "$commit^{commit}" 2>/dev/null || {
		echo "this clone does not have the commit $commit of the previous version: git fetch --unshallow" >&2
		[ "$(git rev-parse --is-shallow-repository 2>/dev/null || echo true)" = false ] || exit 3 # nothing is wrong
		exit 1
	}
	source=$(mktemp -d)
	trap 'rm -rf "$source"' EXIT
	git archive "$commit" | tar -x -C "$source"
	mkdir -p "$dir"
	(cd "$source" && ${GO:-go} build -ldflags=-s -o "$dir/$commit.new" ./cmd/skald) >&2
	mv "$dir/$commit.new" "$dir/$commit"
fi
echo "$dir/$commit"
