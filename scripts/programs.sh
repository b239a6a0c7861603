#!/bin/sh
# Checks that the programs that tests need are on this machine. Each argument names a program and
# its Debian package, or both as program:package. Prints nothing if all are there. Otherwise root
# installs them with apt; other users get instructions and exit status 1. No server is started.
set -eu
PATH="$PATH:/usr/sbin" # Debian installs some there, which is not on every user's PATH

missing() {
	out=""
	for program; do
		command -v "${program%%:*}" >/dev/null || out="$out ${program#*:}"
	done
	echo "${out# }"
}

need=$(missing "$@")
[ -n "$need" ] || exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
	echo "installing with apt: $need" >&2
	# Only the programs are needed. This prevents Debian's packages from starting servers. If it
	# has no effect, that does no harm.
	policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		trap 'rm -f "$policy"' EXIT
		trap 'exit 1' HUP INT TERM
		if printf '#!/bin/sh\nexit 101\n' >"$policy"; then chmod +x "$policy"; fi
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq update >&2 || true # the existing package lists may suffice
	# shellcheck disable=SC2086 # deliberately split into words
	apt-get -qq -y --no-install-recommends install $need >&2 || true
	need=$(missing "$@")
	[ -n "$need" ] || exit 0
fi
echo "missing: $need. sudo apt-get install -y $need" >&2
exit 1
