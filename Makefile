# Skald. `make run` and `make test` install what they need.
GO      ?= go

# Without the symbol table and debug information, the binary is 23 MB smaller. Panics, /debug/pprof
# and `go version -m` do not use them; debuggers and perf do: make build STRIP=
STRIP   ?= -s -w
LDFLAGS  = $(STRIP)

# Everything uses the same flags. Tests build the program too, and different flags would compile
# each package twice, and again in each working copy.
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)

# The packages that share memory between goroutines (derived by scripts/raced.sh). The slowest come
# first, so that none of them runs alone at the end.
RACED = $(addprefix ./internal/,saga/sagadb jobrun/jobdb dlq/dlqdb kafka postgres saga/engine) $$(sh scripts/raced.sh)

comma := ,

.DEFAULT_GOAL := help
.PHONY: help check skald-bench test-bench object-store programs build run demo demo-ui test test-fast race unraced test-ui ci-like screenshots schemathesis chaos outage failover chaos-jobs chaos-kafka lint generate verify-generated bench bench-read bench-ui bench-dlq-read bench-jobs bench-peers test-peers bench-migrate bench-xmin bench-parked bench-scaling soak postgres kafka kafka-stop test-kafka test-keycloak test-alerts test-sdk bench-dlq bench-sdk mutants licenses release test-release examples

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/skald
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/skald ./cmd/skald

object-store: ## build the S3 server for the tests (versitygw, pinned in tools/s3); needed once per machine
	@$(GO) tool -n -modfile=tools/s3/go.mod versitygw >/dev/null

# Programs that the tests and the sessions in the manual need besides Skald and PostgreSQL.
programs: ## install the programs that the tests need: redis-server, pgbouncer, jq, curl, openssl, python3, chromium, prometheus, nginx, haproxy, caddy, axe-core
	@sh scripts/programs.sh redis-server pgbouncer jq curl openssl python3 chromium prometheus nginx haproxy caddy
	@sh scripts/axe.sh

postgres:
	@sh scripts/postgres-binaries.sh

run: postgres build ## start Skald on http://127.0.0.1:8080 with a private PostgreSQL in .skald/
	./bin/skald serve

demo: postgres build ## run three orders through a private server and check the ledgers
	./bin/skald demo

demo-ui: postgres build ## start a server with something in every state to look at, on http://127.0.0.1:8080/ui/ (ARGS='--scale 0.1')
	./bin/skald demo --keep $(ARGS)

# The slowest of the other packages. They wait more than the rest do, and start first.
LONGEST = ./internal/test/chaos ./internal/app ./internal/test/manual ./internal/test/browser ./internal/dlq/dlqapi

# Test programs are not debugged, and omitting symbols and debug information saves nearly 40 % of
# the link time. Their files are in memory if there is room (scripts/tmpdir.sh). Their heaps are
# small, and collecting garbage less often saves 3 to 20 % of the CPU time. No package takes a
# third of its timeout, even on a machine that is otherwise busy.
TEST = TMPDIR=$$(sh scripts/tmpdir.sh) GOGC=400 $(GO) test -vet=off -ldflags=-s -timeout 45m

# The module of the benchmark, whose tests start the programs that they measure.
TESTED_THERE = TMPDIR=$$(sh ../../scripts/tmpdir.sh) GOGC=400 $(GO) test -vet=off -ldflags=-s -timeout 45m

# Most tests wait more than they compute, so twice as many packages run in parallel as there are
# cores.
test: postgres object-store programs ## run all tests; fails, never skips, when a component is missing (RACE=1: the packages of `make race` under the race detector)
ifeq ($(VETTED),)
	$(GO) vet ./...
endif
ifeq ($(RACE),)
	$(TEST) -p $$((2 * $$(getconf _NPROCESSORS_ONLN))) $(LONGEST) ./internal/saga/sagadb ./...
	@$(MAKE) --no-print-directory test-bench
else
	$(MAKE) --no-print-directory -j2 unraced race test-bench
endif

test-bench: # the tests of the benchmark
	cd tools/bench && $(TESTED_THERE) ./...

# VETTED=1 means that `make check` has passed, so its tests are not run again.
unraced: # the packages that `make race` omits
	$(TEST) $(LONGEST) $$($(GO) list ./... | grep -vxF "$$(sh scripts/raced.sh $(if $(VETTED),&& $(GO) list $(CHECKED)))")

test-ui: postgres programs ## run all journeys of people through the pages in chromium, and check every page for accessibility
	TEST_UI=all $(TEST) -v ./internal/test/browser
	TEST_UI=all $(TEST) -v -run TestHostileText ./internal/app

screenshots: postgres programs ## make pictures of every page, light and dark, wide and narrow, in .skald/screenshots
	mkdir -p .skald/screenshots
	TEST_SCREENSHOTS=$(CURDIR)/.skald/screenshots $(TEST) -run TestScreenshots ./internal/test/browser

test-fast: ## run the tests that need only Go: no database, object store or broker (under a minute)
	$(TEST) $$($(GO) list -test -f '{{if .ForTest}}{{.ForTest}} {{join .Deps " "}}{{end}}' ./... | \
		awk '{ all[$$1] } /\/(internal\/(test\/testdb|test\/browser|postgres\/devpg|jobrun\/logstore|test\/manual)|sdk\/sdktest)( |$$)/ { slow[$$1] } END { for (p in all) if (!(p in slow)) print p }')

kafka: ## start a real Apache Kafka broker on 127.0.0.1:19092 (KAFKA_PORT=29092); downloads its jars from Maven Central
	@KAFKA_PORT=$(or $(KAFKA_PORT),19092) sh scripts/kafka.sh start

kafka-stop: ## stop the broker of `make kafka`; the next start creates an empty cluster
	@sh scripts/kafka.sh stop

test-kafka: postgres ## run the integration tests of internal/kafka on a real broker with real consumers, and a short chaos-kafka
	@GO='$(GO)' sh scripts/kafka.sh test

test-keycloak: postgres programs ## sign people in at a real Keycloak from Maven Central, behind a proxy with TLS (two minutes; KEYCLOAK_ZIP=…)
	@GO='$(GO)' sh scripts/keycloak.sh

test-alerts: postgres programs ## bring about what the alerts are for, on a real Prometheus that scrapes real servers (five minutes)
	$(TEST) -tags alerts -v -run AlertsFireInTheirConditions ./internal/test/manual

test-sdk: postgres ## test the libraries for participants, Go's also on MariaDB, SQLite and pgx, and stubs generated from the contract (five minutes; tools come from the registries)
	@sh scripts/programs.sh mariadbd:mariadb-server javac:default-jdk-headless mvn:maven
	$(TEST) -modfile=tools/dialects.mod -overlay=tools/dialects.json -tags dialects -v -run 'Dialects|InDatabases' ./api/participant
	$(TEST) -tags sdk -v ./sdk/sdktest

bench-sdk: ## what the libraries for participants cost beside the same handlers without them, on the PostgreSQL of DATABASE_URL, whose disk should be waited for
	@GO='$(GO)' sh scripts/bench-sdk.sh

test-peers: postgres ## compare Skald with the real DTM for a second (builds DTM, two minutes at the first time)
	cd tools/bench && $(TESTED_THERE) -tags peers -run BesideDTM .

race: postgres programs ## test the packages that share memory, under the race detector
	$(TEST) -race $(RACED)

schemathesis: postgres programs build ## send requests made from the contract to a real server (SCHEMATHESIS_ARGS: other options)
	@sh scripts/schemathesis.sh $(SCHEMATHESIS_ARGS)

chaos: postgres ## kill two nodes two hundred times under load, then check every ledger and letter (about twenty minutes)
	TEST_CHAOS=long $(GO) test -count=1 -v -timeout 60m -run 'Chaos|DeadLettersSurvive|ARedriveTells' ./internal/test/chaos

outage: postgres ## let four participants be ill for a minute, each in its way, under 20,000 sagas, kill a node, then check every ledger (five minutes; SAGAS=2000 SECONDS=20)
	TMPDIR=$$(sh scripts/tmpdir.sh) OUTAGE_SAGAS=$(or $(SAGAS),20000) OUTAGE_SECONDS=$(or $(SECONDS),60) $(GO) test -count=1 -v -timeout 60m -run 'TestAnOutage$$' ./internal/test/chaos

failover: postgres ## lose a primary in five ways, ten times each, with two nodes and a synchronous standby, then check every ledger (about twenty minutes; ROUNDS=3)
	FAILOVER_ROUNDS=$(if $(ROUNDS),$(ROUNDS),10) $(GO) test -count=1 -v -timeout 60m -run AFailoverToTheStandby ./internal/app

upgrade: postgres ## replace nodes of the previous version by those of this one and back, under load, then check every ledger (about six minutes; ROLLOUTS=2)
	@previous=$$(GO='$(GO)' sh scripts/previous.sh) && \
		TEST_PREVIOUS=$$previous TEST_ROLLOUTS=$(ROLLOUTS) $(GO) test -count=1 -tags upgrade -v -timeout 30m -run AnUpgradeAndTheWayBack ./internal/test/chaos

chaos-jobs: postgres ## kill and pause workers, leaders and the database under job runs, with wrong clocks, then check every run (about sixteen minutes)
	TEST_CHAOS=long $(GO) test -count=1 -v -timeout 40m -run 'JobRunsSurvive|FailpointOfJobRuns' ./internal/test/chaos

chaos-kafka: postgres ## kill nodes and an Apache Kafka while its topics are deleted and recreated, then check all 10,000 letters (about seven minutes)
	@GO='$(GO)' sh scripts/kafka.sh chaos

mutants: postgres ## break what the rows of docs/requirements say and show that their tests fail: all (an hour), or SEED=7 or day, N=10, BUDGET=30s, ROWS='X10,gap 2'
	@TMPDIR=$$(sh scripts/tmpdir.sh) GOGC=400 $(GO) run ./internal/test/mutants/mutate $(if $(SEED),-seed $(SEED)) $(if $(N),-n $(N)) \
		$(if $(BUDGET),-budget $(BUDGET)) $(if $(ROWS),-rows '$(ROWS)')

# Every commit has to pass these checks; .ci/run begins with them.
check: lint verify-generated postgres ## the cheap checks, for use before every commit: lint, generated code, structure, documentation
	$(TEST) $(CHECKED)

CHECKED = ./internal/test/archtest ./docs ./internal/config

ci-like: ## run .ci/run three times in a clean clone while something else keeps every core busy (RUNS=1)
	@sh scripts/ci-like.sh $(RUNS)

# golangci-lint runs every analyzer of `go vet` on all files that are not generated. Running both
# would compile and read the whole module twice.
lint: ## run gofmt, golangci-lint and, where that does not look, vet, and check the subjects of new commits
	@sh scripts/subjects.sh
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt: $$out"; exit 1; }
	$(GO) vet ./api/...
	$(GO) vet -tags upgrade ./internal/test/chaos
	$(GO) vet -tags failpoints $$(git grep -lE '^//go:build .*failpoints' -- '*.go' | sed 's|^|./|; s|/[^/]*$$||' | sort -u)
	cd tools/bench && $(GO) mod tidy -diff && $(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod golangci-lint run ./...

generate: ## generate code from openapi.yaml
	$(GO) generate ./api/...

# It runs twice, to avoid recording an answer whose members depend on the moment.
examples: postgres ## record the examples of the contract again, from the answers that the tests of the API get
	rm -rf .skald/examples && mkdir -p .skald/examples
	for run in 1 2; do \
		TEST_EXAMPLES=$(CURDIR)/.skald/examples $(TEST) -count=1 $(EXAMPLES) || exit; \
		TEST_EXAMPLES=$(CURDIR)/.skald/examples $(TEST) -count=1 $(EXAMPLES_ELSEWHERE) || exit; done
	TEST_EXAMPLES=$(CURDIR)/.skald/examples $(TEST) -count=1 -run TestExamplesFollowTheContract ./internal/httpapi/openapi

# Tests in other packages whose answers are recorded as examples.
EXAMPLES_ELSEWHERE = -run 'WhatActionsOnASaga|AnswersThatNoOther|ThePageSaysWhetherTheParticipant' ./internal/test/uitest ./internal/ui/sagapages
EXAMPLES = $$($(GO) list ./internal/... | grep -E '/(httpapi|[a-z]+api)$$')

verify-generated: ## fail if the code in api/ is not what openapi.yaml generates, and generate it
	@before=$$(cat api/*.gen.go api/client/*.gen.go | cksum) && $(GO) generate ./api/... && \
		test "$$before" = "$$(cat api/*.gen.go api/client/*.gen.go | cksum)" || \
		{ echo "the code in api/ was not what openapi.yaml generates: commit what has been generated now"; exit 1; }

licenses: ## write cmd/skald/third_party.txt again: the licences of what Skald is linked with; needed after a change of go.mod
	cd tools/release && $(GO) run . licenses

release: ## build what is published of this commit into dist/: programs, Debian packages, image, chart, bills of materials, checksums
	cd tools/release && $(GO) run . -o $(or $(DIST),$(CURDIR)/dist)

test-release: postgres ## build a release twice and compare the bytes, install its packages and start them, and test the chart with Helm (half an hour)
	@sh scripts/programs.sh debootstrap podman runc skopeo docker-registry kubectl:kubernetes-client
	cd tools/release && $(GO) test -count=1 -v -timeout 60m ./...
	cd tools/helm && $(GO) test ./...

skald-bench: # the benchmark, a module of its own
	cd tools/bench && $(GO) build -o ../../bin/skald-bench .

bench: postgres build skald-bench ## measure sagas per second, latency, CPU, WAL and memory on this machine
	./bin/skald-bench

bench-read: postgres build skald-bench ## measure every list, filter and lookup on 2,000,000 sagas and 6,000,000 step logs (15 minutes, 8 GB)
	./bin/skald-bench read

bench-dlq: postgres build skald-bench ## measure dead letters: ingestion from Kafka, a bulk redrive, memory with large records (a fake broker; BROKERS=host:port for another)
	./bin/skald-bench dlq $(if $(BROKERS),-brokers $(BROKERS))

bench-jobs: postgres build skald-bench ## measure job runs through the worker protocol, in batches and one by one, due slots, a leader failover (5 minutes)
	./bin/skald-bench jobs

bench-peers: postgres build skald-bench ## measure Skald beside DTM, Restate and River, in turns (twenty minutes, or forty if rounds differ; PEERS=dtm,river LEVELS=wait-16,mixed-16,jobs-1 ROUNDS=1)
	@GO='$(GO)' sh scripts/peers.sh $(subst $(comma), ,$(or $(PEERS),dtm restate river))
	./bin/skald-bench peers $(if $(PEERS),-peers $(PEERS)) $(if $(LEVELS),-levels $(LEVELS)) $(if $(ROUNDS),-rounds $(ROUNDS))

bench-migrate: postgres skald-bench ## migrate 10,000,000 sagas under load, fifty times by eight processes at once (an hour, 15 GB; SAGAS=1000000)
	./bin/skald-bench migrate $(if $(SAGAS),-sagas $(SAGAS))

bench-xmin: postgres build skald-bench ## measure sagas and job runs while a snapshot is held (three minutes; HELD=10m)
	./bin/skald-bench xmin $(if $(HELD),-held $(HELD))

bench-parked: postgres build skald-bench ## measure a server with a million sagas that wait for a participant, and their release (four minutes, 3 GB; SAGAS=100000)
	./bin/skald-bench parked $(if $(SAGAS),-sagas $(SAGAS))

bench-scaling: postgres build skald-bench ## measure how the cost of a saga grows with the table, its steps, its payload and what is in flight (ten minutes, 5 GB; STORED=0,10000000 ROUNDS=1)
	./bin/skald-bench scaling $(if $(STORED),-stored $(STORED)) $(if $(ROUNDS),-rounds $(ROUNDS))

soak: postgres build skald-bench ## load a server steadily and fail if its goroutines, files, connections or memory grow (half an hour; DURATION=4h RATE=50)
	./bin/skald-bench soak $(if $(DURATION),-duration $(DURATION)) $(if $(RATE),-rate $(RATE))

bench-ui: postgres build skald-bench ## measure every page for people on 2,000,000 sagas and 1,000,000 letters, and what open pages cost (20 minutes, 8 GB)
	./bin/skald-bench ui

bench-dlq-read: postgres build skald-bench ## measure every list and filter of dead letters on 1,000,000 of them (10 minutes, 5 GB)
	./bin/skald-bench read-letters
