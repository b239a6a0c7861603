#!/bin/sh
# Runs Schemathesis against a real server that has a private PostgreSQL and requires credentials:
# it sends requests generated from the contract, with a fixed seed. Exit status 0 means that there
# were no findings.
#
#   scripts/schemathesis.sh              every operation, every check (a minute on 2 cores)
#   scripts/schemathesis.sh -n 50 --phases coverage,fuzzing,stateful
#                                        longer, for example after a larger change of the contract
#
# bin/skald must be built. Schemathesis is installed from PyPI into ~/.cache/skald/
# (XDG_CACHE_HOME); .skald-schemathesis/ has the logs. Exit status 3 means that it cannot be
# installed here; any other status except 0 is a failure.
set -eu
cd "$(dirname "$0")/.."
version=4.32.5
home=$(pwd)/.skald-schemathesis
here=$(pwd)/scripts/schemathesis

# It is installed once per machine, because that takes a third of a run's CPU time. The folder gets
# its name when it is complete, and is replaced only by a process that cannot run what is in it.
mkdir -p "$home"
python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || python=none
kit=${XDG_CACHE_HOME:-${HOME:-$home}/.cache}/skald/schemathesis-$version-python$python
usable() { "$kit/bin/python" -c '' 2>/dev/null; }
if ! usable; then
	new=$kit.$$
	if ! { mkdir -p "${kit%/*}" && python3 -m venv "$new" && "$new/bin/pip" install -q "schemathesis==$version"; } >"$home/install.log" 2>&1; then
		rm -rf "$new"
		echo "Schemathesis $version could not be installed from PyPI: see $home/install.log; needed are python3 with venv and a package index that pip can reach" >&2
		exit 3
	fi
	usable || { rm -rf "$kit" && mv "$new" "$kit"; }
	rm -rf "$new"
fi

port=$("$kit/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
key=$(bin/skald key generate)
data=$(mktemp -d)
server=
stop() {
	[ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
	rm -rf "$data"
}
trap stop EXIT
trap 'exit 1' HUP INT TERM
skald=$(pwd)/bin/skald
(cd "$data" && SKALD_BOOTSTRAP_ADMIN_KEY=$key SKALD_AUTH_MODE=required SKALD_LISTEN_ADDR=127.0.0.1:$port exec "$skald" serve) >"$home/server.log" 2>&1 &
server=$!
url=http://127.0.0.1:$port
tries=0
until curl -fs "$url/readyz" >/dev/null 2>&1; do
	tries=$((tries + 1))
	if [ "$tries" -gt 600 ] || ! kill -0 "$server" 2>/dev/null; then
		echo "the server did not become ready; the end of $home/server.log:" >&2
		tail -n 5 "$home/server.log" >&2
		exit 1
	fi
	sleep 0.2
done
[ $# -gt 0 ] || set -- --phases examples,coverage
cd "$data" # it leaves files in its working directory
SCHEMATHESIS_HOOKS=checks PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 "$kit/bin/python" "$kit/bin/schemathesis" \
	--config-file "$here/schemathesis.toml" run "$url/openapi.json" --header "X-API-Key:$key" --checks all --no-color "$@"
