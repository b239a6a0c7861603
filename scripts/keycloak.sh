#!/bin/sh
# Runs the test of single sign-on (internal/test/manual, build tag keycloak) with a real Keycloak,
# whose distribution comes from Maven Central into .skald-keycloak/. KEYCLOAK_ZIP names a
# distribution that is already on this machine. MAVEN_CENTRAL is the URL of a mirror of Maven
# Central, if Maven's settings do not name one.
#
# Exit status 3 means that Keycloak cannot run here; the last line says why.
set -eu
cd "$(dirname "$0")/.."
dir=$(pwd)/.skald-keycloak
version=26.5.6
sha256=490189d9dff05272432d51f71a069462eeca97f2920a694d539a1e6c26a5a347

unavailable() {
	echo "KEYCLOAK IS NOT AVAILABLE: $1" >&2
	exit 3
}

command -v java >/dev/null || unavailable "it needs Java 17 or later: sudo apt-get install default-jre-headless maven"
mkdir -p "$dir"
zip=${KEYCLOAK_ZIP:-$dir/keycloak-$version.zip}
if [ ! -f "$zip" ]; then
	command -v mvn >/dev/null || unavailable "Maven (mvn) is missing, which fetches it; or set KEYCLOAK_ZIP"
	set -- -q -B -C # a checksum mismatch is an error
	if [ -n "${MAVEN_CENTRAL:-}" ]; then
		cat >"$dir/settings.xml" <<-XML
			<settings><mirrors><mirror><id>central-mirror</id><mirrorOf>central</mirrorOf><url>$MAVEN_CENTRAL</url></mirror></mirrors></settings>
		XML
		set -- "$@" -s "$dir/settings.xml"
	fi
	mvn "$@" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
		-Dartifact=org.keycloak:keycloak-quarkus-dist:$version:zip -DoutputDirectory="$dir" >"$dir/maven.log" 2>&1 ||
		unavailable "Maven could not fetch it (all of it is in $dir/maven.log)"
	echo "$sha256  $dir/keycloak-quarkus-dist-$version.zip" | sha256sum -c --quiet ||
		unavailable "what Maven fetched is not Keycloak $version: its SHA-256 is another"
	mv "$dir/keycloak-quarkus-dist-$version.zip" "$zip"
fi
home=$dir/$(basename "$zip" .zip)
if [ ! -f "$home/.complete" ]; then
	rm -rf "$home" "$dir/new"
	# A JDK contains jar; unzip is a separate program.
	mkdir "$dir/new" && (cd "$dir/new" && { unzip -q "$zip" 2>/dev/null || jar xf "$zip"; })
	mv "$dir"/new/* "$home" && rmdir "$dir/new"
	chmod +x "$home/bin/kc.sh"
	"$home/bin/kc.sh" build --db=dev-mem >"$dir/build.log" 2>&1 || unavailable "kc.sh build failed: $dir/build.log"
	touch "$home/.complete"
fi
KEYCLOAK_HOME=$home exec "${GO:-go}" test -vet=off -ldflags=-s -tags keycloak -v -timeout 30m -run Keycloak ./internal/test/manual
