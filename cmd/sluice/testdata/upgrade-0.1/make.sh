#!/usr/bin/env bash
# Makes the data directories of this folder with the program of 0.1.0, that is of
# commit 5f53b36, the last one that hashes the keys of a person three ways:
#
#     git worktree add /tmp/v0.1 5f53b36
#     (cd /tmp/v0.1 && CGO_ENABLED=0 go build -o /tmp/sluice-0.1 ./cmd/sluice)
#     ./make.sh /tmp/sluice-0.1
#
# Each has an append-only file of Redis and a database, of which the former is
# ahead: the last process took in and stored nothing, and was killed. What is in it,
# and what must come out of it, is in upgrade_0_1_test.go.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
here=$PWD
work=$(mktemp -d)
chmod 755 "$work"
pids=()
running=
trap 'kill -9 $running "${pids[@]}" || true; wait; rm -rf "$work"' EXIT
export SLUICE_ROOT_KEY=root-key-of-a-test-0123456789abcdef
port=18019
url=http://127.0.0.1:$port

database() { # KIND: starts a server, prints its URL
	case $1 in
	sqlite) ;;
	mariadb)
		mkdir "$work/maria" && chown -R mysql "$work/maria"
		mariadb-install-db --user=mysql --datadir="$work/maria" --auth-root-authentication-method=normal >"$work/maria.log" 2>&1
		mariadbd --no-defaults --user=mysql --datadir="$work/maria" --port=18306 --bind-address=127.0.0.1 --socket="$work/maria/s" >>"$work/maria.log" 2>&1 &
		pids+=($!)
		until mariadb -uroot -S "$work/maria/s" -e 'CREATE DATABASE sluice' 2>/dev/null; do sleep 0.2; done
		SLUICE_DATABASE=mysql://root@127.0.0.1:18306/sluice
		;;
	postgres)
		bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
		mkdir "$work/pg" && chown postgres "$work/pg"
		runuser -u postgres -- "$bin/initdb" -A trust -D "$work/pg" >"$work/pg.log"
		runuser -u postgres -- "$bin/postgres" -D "$work/pg" -p 18432 -k "$work/pg" >>"$work/pg.log" 2>&1 &
		pids+=($!)
		until psql -qh "$work/pg" -p 18432 -U postgres -c 'CREATE DATABASE sluice' 2>/dev/null; do sleep 0.2; done
		SLUICE_DATABASE=postgres://postgres@127.0.0.1:18432/sluice
		;;
	esac
}

start() { # sending, roles
	cat >"$dir/sluice.yaml" <<-EOF
		listen: 127.0.0.1:$port
		data: $dir/data
		partitions: 4
		event_time: {past_days: 0}
		sending: "$1"
		roles: [$2]
		lists:
		  q: {dedupe: event_id, app_id: shop}
		hashes:
		  - {dirty: buffered, key: "{app_id}|{date}|{name}"}
	EOF
	chmod 600 "$dir/sluice.yaml"
	"$program" serve --config "$dir/sluice.yaml" 2>>"$dir/log" &
	running=$!
	until curl -fs $url/readyz >/dev/null; do sleep 0.1; kill -0 $running; done
}

stop() { kill "-$1" $running; wait $running || true; }
post() { curl --fail-with-body -sS "$url$1" -H "Authorization: Bearer $SLUICE_ROOT_KEY" -H 'Content-Type: application/json' -d "$2" "${@:3}" >"$dir/answer" || { cat "$dir/answer" >&2; exit 1; }; }
get() { curl -fsS "$url$1" -H "Authorization: Bearer $SLUICE_ROOT_KEY"; }
redis() { redis-cli -s "$(sed 's|^unix://||; s|?.*||' "$dir/data/redis/url")" "$@" >/dev/null; }
sluice() { "$program" "$1" --config "$dir/sluice.yaml" "${@:2}"; }
until_has() { # path, text
	for _ in $(seq 200); do get "$1" | grep -q "$2" && return; sleep 0.1; done
	echo "no $2 in $1:" >&2; get "$1" >&2; exit 1
}
events() { # by the list q: from, to
	for i in $(seq "$1" "$2"); do redis RPUSH q "{\"event_id\":\"e$i\",\"event\":\"open\",\"timestamp\":1700000000000,\"email\":\"p$i@example.com\",\"user_id\":\"u$i\"}"; done
}
count() { # name, times
	redis HINCRBY "shop|2026-01-31|$1" 13 "$2"
	redis SADD buffered "shop|2026-01-31|$1"
}
mails() { # name, count, more
	for i in $(seq "$2"); do post /v1/messages "{\"from\":\"shop@example.com\",\"to\":\"$1$i@example.com\",\"subject\":\"$1\",\"text\":\"hello\",\"tags\":[\"$1\"]$3}" -H "Idempotency-Key: $1-$i"; done
}

fill() { # all of it is stored
	start sink 'intake, store, send'
	events 1 20
	count visits 7
	post /v1/counters '{"app_id":"shop","name":"calls","by":3,"time":"2026-01-31T10:00:00Z"}'
	post /v1/events '[{"event":"click","event_id":"c1","time":"2026-01-31T10:00:00Z","email":"p1@example.com","user_id":"u1"},{"event":"unsubscribed","event_id":"c2","time":"2026-01-31T10:00:00Z","email":"p2@example.com"}]'
	for i in $(seq 8); do
		post /users/track "{\"attributes\":[{\"external_id\":\"u$i\",\"email\":\"p$i@example.com\",\"first_name\":\"P$i\",\"country\":\"DE\",\"points\":$i,\"colours\":[\"red\",\"blue\"],\"address\":{\"city\":\"Köln\"}}],\"events\":[{\"external_id\":\"u$i\",\"name\":\"seen\",\"time\":\"2026-01-31T10:00:00Z\",\"properties\":{\"page\":$i}}],\"purchases\":[{\"external_id\":\"u$i\",\"product_id\":\"shoe\",\"currency\":\"EUR\",\"price\":12.5,\"time\":\"2026-01-31T10:00:00Z\"}]}"
	done
	post /users/track '{"attributes":[{"user_alias":{"alias_name":"a1","alias_label":"web"},"_update_existing_only":false,"first_name":"Alias"},{"user_alias":{"alias_name":"a2","alias_label":"web"},"_update_existing_only":false,"points":40}]}'
	until_has '/v1/series?by=name&step=day&from=2026-01-01T00:00:00Z' visits
	post /users/identify '{"aliases_to_identify":[{"external_id":"u9","user_alias":{"alias_name":"a1","alias_label":"web"}}]}'
	post /users/merge '{"merge_updates":[{"identifier_to_merge":{"external_id":"u8"},"identifier_to_keep":{"external_id":"u7"}}]}'
	post /subscription/status/set '{"subscription_group_id":"news","subscription_state":"subscribed","external_id":["u1","u2"]}'
	post /v1/suppressions '{"suppressions":[{"entry":"gone@example.com","reason":"hard_bounce"},{"entry":".bad.example","reason":"bad_domain"}]}'
	post /v1/segments '{"name":"Rich","rule":{"attribute":"points","is":"greater_than","value":3}}'
	post /v1/templates '{"id":"welcome","name":"Welcome","subject":"Hello {{${first_name}}}","from":"shop@example.com","text":"You have {{custom_attribute.${points}}} points"}'
	sluice key create --name shop --permission events:write,messages:send >"$dir/key"
	mails sent 5 ''
	until_has /v1/ledger '0 waiting + 5 sent'
	stop TERM
}

wait_in_lanes() { # mail waits
	start off 'intake, store, send'
	mails high 3 ',"priority":"high","expires_at":"2027-11-20T00:00:00Z"'
	mails low 4 ',"class":"marketing","expires_at":"2027-11-20T00:00:00Z"'
	mails later 3 ',"send_at":"2027-06-01T00:00:00Z"'
	until_has /v1/ledger '10 waiting + 5 sent'
	stop TERM
}

take_in() { # and store nothing
	start off intake
	events 21 30
	count visits 5
	post /v1/counters '{"app_id":"shop","name":"calls","by":4,"time":"2026-01-31T10:00:00Z"}'
	post /v1/events '[{"event":"click","event_id":"c3","time":"2026-01-31T10:00:00Z","email":"p3@example.com","user_id":"u3"},{"event":"click","event_id":"c1","time":"2026-01-31T10:00:00Z","email":"p1@example.com","user_id":"u1"},{"event":"unsubscribed","event_id":"c4","time":"2026-01-31T10:00:00Z","email":"p4@example.com"}]'
	post /users/track '{"attributes":[{"external_id":"u1","points":100},{"external_id":"u10","email":"p10@example.com","first_name":"P10"},{"user_alias":{"alias_name":"a2","alias_label":"web"},"points":41}],"events":[{"external_id":"u1","name":"seen","time":"2026-02-01T10:00:00Z"},{"external_id":"u10","name":"seen","time":"2026-02-01T10:00:00Z"}],"purchases":[{"external_id":"u2","product_id":"shoe","currency":"EUR","price":2.5,"time":"2026-02-01T10:00:00Z"}]}'
	post /users/merge '{"merge_updates":[{"identifier_to_merge":{"external_id":"u6"},"identifier_to_keep":{"external_id":"u5"}}]}'
	mails logged 4 ',"expires_at":"2027-11-20T00:00:00Z"'
	post /v1/messages '{"from":"shop@example.com","to":{"email":"p1@example.com","user_id":"u1"},"template":{"id":"welcome"},"expires_at":"2027-11-20T00:00:00Z"}'
	until [ "$(redis-cli -s "$(sed 's|^unix://||; s|?.*||' "$dir/data/redis/url")" EXISTS q)" = 0 ]; do sleep 0.1; done
	events 31 35
	stop KILL
}

for kind in sqlite mariadb postgres; do
	dir=$work/$kind
	mkdir -p "$dir"
	unset SLUICE_DATABASE
	database $kind
	[ -z "${SLUICE_DATABASE-}" ] || export SLUICE_DATABASE
	fill
	wait_in_lanes
	take_in
	while pgrep -f "redis-server.*$dir" >/dev/null; do sleep 0.1; done
	case $kind in
	mariadb) mariadb-dump -uroot -S "$work/maria/s" --skip-comments --hex-blob --skip-tz-utc sluice >"$dir/data/sluice.sql" ;;
	postgres) pg_dump -h "$work/pg" -p 18432 -U postgres --no-owner sluice | grep -v '^\\.*restrict' >"$dir/data/sluice.sql" ;;
	esac
	cp "$dir/key" "$dir/data/key"
	rm -f "$dir"/data/redis/redis.sock
	tar --sort=name --owner=0 --group=0 --mtime=2026-01-31 -C "$dir/data" -cz . >"$here/$kind.tar.gz"
done
ls -l "$here"
