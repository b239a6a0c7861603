#!/bin/sh
# Checks the subjects of commits that are not yet on the main branch: "package: what it does now",
# at most 72 columns. Earlier history is not checked. Without a main branch to compare with, as in
# a shallow clone or on the main branch itself, only the latest commit is checked. SUBJECTS=FILE
# checks the lines of a file instead.
set -eu
longest=72
git rev-parse --git-dir >/dev/null 2>&1 || exit 0 # an archive of the sources has no history

subjects() {
	if [ -n "${SUBJECTS:-}" ]; then
		cat "$SUBJECTS"
		return
	fi
	for base in origin/main origin/HEAD main; do
		base=$(git merge-base "$base" HEAD 2>/dev/null) || continue
		if [ "$base" != "$(git rev-parse HEAD)" ]; then
			git log --no-merges --format=%s "$base..HEAD"
			return
		fi
	done
	git log --no-merges --max-count=1 --format=%s HEAD
}

# awk counts bytes, so continuation bytes of UTF-8 are removed from a subject first.
subjects | LC_ALL=C awk -v longest=$longest '
	{ text = $0; gsub(/[\200-\277]/, "", text) }
	length(text) > longest { print "commit subject of " length(text) " columns, at most " longest ": " $0; bad = 1 }
	$0 !~ /^[A-Za-z0-9.][^:]*: [^ ]/ { print "commit subject not of the form \"package: what it does now\": " $0; bad = 1 }
	END { exit bad }'
