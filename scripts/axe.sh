#!/bin/sh
# Downloads axe-core, which the tests of the pages use, into .skald-axe/. Prints nothing if it is
# already there. The npm package is pinned by version and checksum.
set -eu
cd "$(dirname "$0")/.."
version=4.14.1
sum=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
home=$(pwd)/.skald-axe
[ "$(cat "$home/version" 2>/dev/null)" != "$version" ] || exit 0
sh scripts/programs.sh npm
rm -rf "$home"
mkdir -p "$home"
(cd "$home" && npm pack --silent "axe-core@$version" >/dev/null)
echo "$sum  $home/axe-core-$version.tgz" | sha256sum --check --quiet
tar -xzf "$home/axe-core-$version.tgz" -C "$home" --strip-components=1 package/axe.min.js package/LICENSE
rm "$home/axe-core-$version.tgz"
echo "$version" >"$home/version"
