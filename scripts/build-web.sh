#!/usr/bin/env bash
# Builds the dashboard: web/src/api/schema.ts of api/openapi.json, and web/dist of
# web/src. Both are committed, so that `go build` needs no Node.
#
#   scripts/build-web.sh           writes them
#   scripts/build-web.sh --check   fails if what is there is not what would be written
#
# The same sources and package-lock.json give the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../web"

say() { printf 'web: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

command -v npm >/dev/null || fail "npm is missing: make deps-test installs it"
wanted=$(sha256sum <package-lock.json)
if [ "$(cat node_modules/.wanted 2>/dev/null)" != "$wanted" ]; then
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error 1>&2 || fail "npm ci failed: see above; is there a network?"
	printf '%s\n' "$wanted" >node_modules/.wanted
fi

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
node_modules/.bin/openapi-typescript ../api/openapi.json -o "$new/schema.ts" >/dev/null 2>&1 || fail "openapi-typescript cannot read api/openapi.json"
if [ "${1:-}" = --check ]; then
	cmp -s "$new/schema.ts" src/api/schema.ts || fail "src/api/schema.ts is not what api/openapi.json gives: run make web, and commit it"
else
	cp "$new/schema.ts" src/api/schema.ts
fi
node_modules/.bin/tsc --noEmit || fail "the types are wrong: see above"
node_modules/.bin/vite build --outDir "$new/dist" --emptyOutDir --logLevel warn 1>&2
if [ "${1:-}" = --check ]; then
	diff -rq "$new/dist" dist 1>&2 || fail "dist is not what make web builds: run it, and commit what it writes"
	say "dist is what its sources give"
else
	rm -rf dist
	cp -r "$new/dist" dist
fi
