#!/bin/sh
# Installs the programs of Skald's peers in bin/peers, for `make bench-peers`: all of them, or
# those named as arguments:
#   sh scripts/peers.sh dtm restate river
# DTM and the programs that drive Restate and River are built from Go modules, pinned in tools/dtm
# and tools/bench/peers; Restate's server comes from npm, installed without running package
# scripts.
set -eu
cd "$(dirname "$0")/.."
out=$PWD/bin/peers
mkdir -p "$out"
go=${GO:-go}
restate=1.7.12

for peer in ${*:-dtm restate river}; do
	case $peer in
	dtm)
		(cd tools/dtm && $go build -trimpath -o "$out/dtm" github.com/dtm-labs/dtm)
		module=$(cd tools/dtm && $go list -m -f '{{.Dir}}' github.com/dtm-labs/dtm)
		cp "$module/sqls/dtmsvr.storage.postgres.sql" "$out/dtm.sql"
		chmod u+w "$out/dtm.sql"
		;;
	restate)
		(cd tools/bench/peers && $go build -trimpath -o "$out/restate" ./restate)
		if ! "$out/restate-server" --version 2>/dev/null | grep -qF "$restate"; then
			command -v npm >/dev/null || { echo "peers.sh: Restate's server needs npm" >&2; exit 1; }
			npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix "$out/npm" \
				"@restatedev/restate-server@$restate"
			ln -f "$out"/npm/node_modules/@restatedev/restate-server-*/bin/restate-server "$out/restate-server"
		fi
		;;
	river)
		(cd tools/bench/peers && $go build -trimpath -o "$out/river" ./river)
		;;
	*)
		echo "peers.sh: no peer '$peer': want dtm, restate or river" >&2
		exit 1
		;;
	esac
done
