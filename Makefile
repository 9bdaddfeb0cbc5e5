# Sluice. `make help` lists the targets.

# Nothing here needs cgo, so a machine without a C compiler builds the same
# program; only `go test -race` does, and `make test` installs gcc for it.
BIN     := bin/sluice
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BUILD    = CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)'

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The bounds of one run. All of `make test` stays below 15 minutes on 2 cores of a fast
# machine; the timeouts end what hangs on one that is half as fast, too.
TEST_TIMEOUT  := 60m
TEST_AT_ONCE  := 2
TESTS_OF_EACH := 4
CHAOS_AT_ONCE := 2
KILLS         := 200
ROUNDS        := 500
ROUNDS_FILE   := $(CURDIR)/chaos-rounds.txt
AT_ONCE       := 3
REDIS         :=
BASE          :=
STRIKES       := 1
FUZZ_SECONDS  := 20
BENCH_ARGS    :=

.DEFAULT_GOAL := help
.PHONY: help run build web web-check pictures lighthouse test test-engines lint chaos chaos-rounds bench fuzz deps deps-test clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: deps build ## install what is missing, build, run the demo
	./$(BIN) demo

build: ## build bin/sluice and bin/sluice-bench
	$(BUILD) -o $(BIN) ./cmd/sluice
	$(BUILD) -o $(BIN)-bench ./cmd/sluice-bench

web: ## build the dashboard: web/dist, which is committed
	@scripts/build-web.sh

web-check: deps-test ## fail if web/dist is not what `make web` builds
	@scripts/build-web.sh --check

pictures: build deps-test ## make docs/pictures of the demo, in the browser of the tests
	@scripts/pictures.sh ./$(BIN) docs/pictures

lighthouse: build deps-test ## measure the dashboard of a demo into bench/results/lighthouse.json, in the browser of the tests
	@scripts/install-deps.sh --lighthouse
	@scripts/lighthouse.sh ./$(BIN) bench/results/lighthouse.json

# SQLite is C in the form of Go, used by one goroutine at a time, with the library and the
# memory of C below it, which have locks of their own: watched by the race detector they
# take four times as long, and tell nothing. Only these packages: one with generic code
# would hand its unwatched copies to all others.
RACE_BUT := $(foreach package,sqlite/lib libc memory,-gcflags=modernc.org/$(package)=-race=false)

# The packages whose tests take longest, which begin first: none of them runs alone
# at the end.
LONGEST := ./mail/spool ./ingest ./engine ./journey/run ./flow ./test/servers ./mail/via/smtp

# Tests of the whole program, and of the statements of four databases. What they call is
# watched by the race detector in tests of engine, flow, ingest, mail, journey and track:
# here it would only make them take half as long again.
UNWATCHED := ./cmd/sluice ./store/sqlstore

# The crash suite runs without the race detector, too: it starts the built program
# again and again, and a detector in the test would only watch the test. All of it runs
# side by side: CHAOS_AT_ONCE tests of the crash suite, both packages of UNWATCHED, and
# TEST_AT_ONCE of the others, with TESTS_OF_EACH of the tests of each that may run side by
# side: most of them wait more than they compute. So lint computes beside them, with go vet.
# Two packages more were 35 processes that waited for 2 slow cores, for no gain of time.
test: deps-test ## lint, and every test against real servers, with the race detector
	@within="env TMPDIR=$$(scripts/test-dir.sh)"; \
	make --no-print-directory lint web-check & lint=$$!; \
	CGO_ENABLED=0 go test -exec "$$within" -vet=off -count=1 -parallel $(CHAOS_AT_ONCE) -timeout $(TEST_TIMEOUT) ./test/chaos & chaos=$$!; \
	CGO_ENABLED=0 go test -exec "$$within" -vet=off -parallel $(TESTS_OF_EACH) -timeout $(TEST_TIMEOUT) $(UNWATCHED) & unwatched=$$!; \
	go test -exec "$$within" -race -vet=off $(RACE_BUT) -p $(TEST_AT_ONCE) -parallel $(TESTS_OF_EACH) -timeout $(TEST_TIMEOUT) $(LONGEST) $$(go list ./... | grep -vxF "$$(go list $(UNWATCHED) ./test/chaos)"); tests=$$?; \
	wait $$lint; lint=$$?; wait $$unwatched; unwatched=$$?; wait $$chaos && exit $$((lint + unwatched + tests))

test-engines: deps-test ## the set-ups of docs/scale.md, with how long a failover takes in each; Redis's on Valkey too
	go test -count=1 -v -p 1 -timeout $(TEST_TIMEOUT) -run 'Cluster|Sentinel|Galera|Spider|SeveralHosts|DialOfWrong|Standby|Deployed' ./test/servers ./flow ./store/sqlstore ./engine ./cmd/sluice
	@set -e; for set_up in -redis=sentinel -redis=replicas -base=galera -kind=standby; do \
		go test ./test/chaos -count=1 -timeout 20m -run 'TestRounds$$' -args $$set_up; \
	done
	@set -e; valkey=$$(scripts/install-deps.sh --valkey); PATH="$$valkey:$$PATH" go test -count=1 -v -p 1 -timeout $(TEST_TIMEOUT) -run 'Cluster|Sentinel|Replicas|DialOfWrong' ./test/servers ./flow ./engine

# Without cgo, as the program is built: what is compiled for it is not compiled again
# for the crash suite.
lint: ## gofmt, go vet, staticcheck with every check: see CONTRIBUTING.md
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w these:"; echo "$$unformatted"; exit 1; fi
	CGO_ENABLED=0 go vet ./...
	CGO_ENABLED=0 go run $(STATICCHECK) -checks all ./...

chaos: deps ## the long crash suite: KILLS (200) kills at random instants
	go test ./test/chaos -count=1 -timeout 120m -args -kills=$(KILLS)

# Goes on after the rounds that the file has, so it may be ended at any time. REDIS (one,
# cluster, replicas, sentinel) and BASE (mariadb, postgres, sqlite, galera) choose what a
# seed chooses otherwise. STRIKES is how often a round strikes (docs/chaos.md).
chaos-rounds: deps ## ROUNDS (500) rounds of faults, noted in ROUNDS_FILE; AT_ONCE (3) side by side
	go test ./test/chaos -count=1 -timeout 24h -run 'TestRounds$$' -args -rounds=$(ROUNDS) -rounds-file=$(ROUNDS_FILE) -at-once=$(AT_ONCE) -redis=$(REDIS) -base=$(BASE) -strikes=$(STRIKES)

bench: deps-test build ## measure this machine: small benchmarks, then the program's own
	go test -run '^$$' -bench . -benchmem ./...
	./$(BIN)-bench $(BENCH_ARGS)

# go test fuzzes one target of one package at a time. Where the order of a map decides
# what is covered, it would spend the whole time on making one input smaller.
fuzz: deps-test ## run each fuzz target for FUZZ_SECONDS (20), then 2,000 made-up requests a path
	@set -e; for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "fuzz: $$package $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZ_SECONDS)s -fuzzminimizetime 10x $$package; \
		done; \
	done
	go test -run '^TestFuzzedBySchema$$' -count=1 ./cmd/sluice -args -examples=2000

deps: ## install what running needs: Redis, MariaDB, PostgreSQL (Debian, Ubuntu)
	@scripts/install-deps.sh

deps-test: ## install what testing and measuring need as well: gcc, a fuzzer in Python, clients of Braze, FerretDB
	@scripts/install-deps.sh --test

clean: ## remove what was built
	rm -rf bin
