#!/usr/bin/env bash
# Measures the dashboard of a running demo with Lighthouse, in the browser that the tests
# use, and writes the medians of so many runs (5). It takes some fifteen minutes, in which
# the machine should do nothing else, and fails if a median misses its limit:
#
#   scripts/lighthouse.sh SLUICE FILE [RUNS]
set -euo pipefail
[ $# = 2 ] || [ $# = 3 ] || { echo "usage: $0 SLUICE FILE [RUNS]" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hash=$(sha256sum <"$here/npm-lighthouse/package-lock.json") # as install-deps.sh names it
tools=${XDG_CACHE_HOME:-$HOME/.cache}/sluice/lighthouse-${hash:0:12}
[ -e "$tools/complete" ] || { echo "Lighthouse is missing: scripts/install-deps.sh --lighthouse" >&2; exit 1; }
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
NODE_PATH="$tools/node_modules" node "$here/lighthouse.cjs" "$1" "$data/demo" "$2" "${3:-5}"
