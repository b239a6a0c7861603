#!/bin/sh
# Makes sure that the program pgbouncer is on this machine, for tests. Silent when
# it is. Otherwise root gets it by apt, and everybody else gets advice and exit
# status 1. No pooler is started.
set -eu

# Debian has it in /usr/sbin, which is not on everybody's PATH.
found() { PATH="$PATH:/usr/sbin" command -v pgbouncer >/dev/null; }

if found; then exit 0; fi
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
	echo "pgbouncer is missing: installing it with apt" >&2
	# Only the program is wanted. Debian's package would start a pooler on port
	# 6432; where this is not honoured, that does no harm.
	policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		trap 'rm -f "$policy"' EXIT
		trap 'exit 1' HUP INT TERM
		if printf '#!/bin/sh\nexit 101\n' >"$policy"; then chmod +x "$policy"; fi
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq update >&2 || true # the lists of yesterday may do
	if apt-get -qq -y --no-install-recommends install pgbouncer >&2 && found; then
		exit 0
	fi
fi
echo "pgbouncer is missing: sudo apt-get install -y pgbouncer" >&2
exit 1
