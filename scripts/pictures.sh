#!/usr/bin/env bash
# Makes docs/pictures of a running demo, in the browser that the tests use:
#
#   scripts/pictures.sh SLUICE DIRECTORY
set -euo pipefail
[ $# = 2 ] || { echo "usage: $0 SLUICE DIRECTORY" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hash=$(sha256sum <"$here/npm-test/package-lock.json") # as install-deps.sh names it
tools=${XDG_CACHE_HOME:-$HOME/.cache}/sluice/node-${hash:0:12}
[ -e "$tools/complete" ] || { echo "the tests' tools are missing: make deps-test" >&2; exit 1; }
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
mkdir -p "$2"
NODE_PATH="$tools/node_modules" node "$here/pictures.cjs" "$1" "$data/demo" "$2"
