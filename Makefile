# Needs Go, git and make; everything else is fetched by Go, pinned in go.mod and tools/go.mod.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := help

GO ?= go
TOOL := $(GO) tool -modfile=$(CURDIR)/tools/go.mod

# The library and every module nested in it. tools/ holds no code.
MODULES := $(patsubst %/,%,$(sort $(dir $(shell find . -name go.mod -not -path './tools/*' -not -path '*/testdata/*'))))

# The race detector needs a C compiler. Where there is none the tests still run, without it.
CC_NAME := $(firstword $(shell $(GO) env CC))
RACE := $(if $(shell command -v $(CC_NAME) 2>/dev/null),-race,)

TEST_TIMEOUT ?= 8m
FUZZ_TIME ?= 20s
SOAK_TIME ?= 1m
TIME ?= 60s
ARGS ?=

# $(call in-modules,modules,command,how many at a time) prints the output of a module when its command has ended, goes on
# after a failure, and fails at the end with the list of modules that failed. Until then it says which modules have begun.
define in-modules
trap "exit 130" INT; out=$$(mktemp -d); trap 'rm -rf "$$out"' EXIT; \
printf '%s\n' $(1) | xargs -P $(or $(3),1) -I{} bash -c 'echo "$$(date +%T) {} has begun" >&2; output=$$(mktemp "$$0/XXXXXX"); (cd {} && $(2)) >"$$output" 2>&1; echo "$$? {} $$output"' "$$out" | { \
failed=; \
while read -r status module output; do \
	echo "$$(date +%T) --- $$module:" '$(2)'; \
	cat "$$output"; \
	if [ "$$status" != 0 ]; then failed="$$failed $$module"; fi; \
done; \
if [ -n "$$failed" ]; then echo "FAILED in:$$failed"; exit 1; fi; }
endef

# $(call build-and-run,module,package) says that it builds. Unlike go run the program
# itself gets an interrupt, and its exit status is the recipe's.
define build-and-run
echo "building $(2) in $(1) ..."; \
cd $(1) && $(GO) build -o $(CURDIR)/bin/$(notdir $(abspath $(1)/$(2))) $(2) && exec $(CURDIR)/bin/$(notdir $(abspath $(1)/$(2))) $(ARGS)
endef

##@ Programs

.PHONY: run
run: ## acks=all cluster on the purgatory: 10 s, two minutes with the first build (ARGS="-h" lists its flags)
	@$(call build-and-run,.,./examples/acksall)

.PHONY: longpoll
longpoll: override ARGS := -demo $(ARGS)
longpoll: ## HTTP long-poll server under publishers and pollers for a few seconds (ARGS=-demo=false: until Ctrl-C)
	@$(call build-and-run,.,./examples/longpoll)

.PHONY: sessions
sessions: ## sessions by the hundred thousand with heartbeats; some fall silent, each is found once
	@$(call build-and-run,.,./examples/sessions)

.PHONY: jobs
jobs: ## a claim service over HTTP: each job to one worker, and again if that one leaves; a few seconds
	@$(call build-and-run,.,./examples/jobs)

.PHONY: gateway
gateway: ## a gateway with few slots, a bounded line and 429 beyond it, under load, drained by SIGTERM; a few seconds
	@$(call build-and-run,.,./examples/gateway)

.PHONY: broker
broker: ## three brokers in one process that Kafka clients can talk to; runs until Ctrl-C (ARGS="-debug-addr :0": with debug page)
	@$(call build-and-run,examples/heavy,./broker/cmd/broker)

.PHONY: demo
demo: ## the brokers under load, stopped, killed and frozen at random, and each record judged
	cd examples/heavy && $(GO) test -count 1 -v -run TestNothingAcknowledgedIsLost ./broker/cluster

.PHONY: broker-figures
broker-figures: ## what a produce costs in the brokers and in kfake: alone, beside 300 waiting fetches, after these
	cd examples/heavy && $(GO) test ./broker/cluster -run '^$$' -bench BesideKfake -benchtime 1x

.PHONY: raft
raft: override ARGS := demo $(ARGS)
raft: ## a key-value store on a raft engine: three processes, killed, frozen and cut off for half a minute, and checked
	@echo "building ./raftkv/cmd/raftkv in examples/heavy ..."; cd examples/heavy && $(GO) build -o $(CURDIR)/bin/ ./raftkv/cmd/raftkv
	@$(call build-and-run,examples/heavy,./raftcheck)

.PHONY: replicas
replicas: override ARGS := demo $(ARGS)
replicas: ## three replicas of a watch service, 10,000 long polls, and accidents: half a minute (ARGS="-engine postgres")
	@$(call build-and-run,examples/heavy,./replicas)

.PHONY: replicas-figures
replicas-figures: ## wake-ups across processes, hints for nobody; needs a quiet machine
	cd examples/heavy && $(GO) run ./replicas figures $(ARGS)
	$(GO) test -run '^$$' -bench HintForNobody -benchmem ./purgatory ./signals

.PHONY: replicas-cuts
replicas-cuts: ## 1,000 random cuts on each engine: nothing lost, nothing answered twice
	SIGNALS_CUTS=1000 $(GO) test -count 1 -v -timeout 40m -run AtRandomCuts ./signals/signalstest
	cd plugin/nats && NATS_CUTS=1000 $(GO) test -count 1 -v -timeout 40m -run RandomCutsOf .
	cd plugin/postgres && POSTGRES_CUTS=1000 $(GO) test -count 1 -v -timeout 40m -run 'TestPostgres/random' .

.PHONY: replicas-lag
replicas-lag: ## 5,000 waits whose reads lag behind their hints: three NATS servers, a PostgreSQL standby; 300 hints at another server
	cd plugin/nats && NATS_ROUNDS=5000 $(GO) test -count 1 -v -timeout 40m -run BehindTheHint .
	cd plugin/nats && NATS_ROUNDS=300 $(GO) test -count 1 -v -timeout 40m -run AtAnotherServer .
	cd plugin/postgres && POSTGRES_WAITS=5000 $(GO) test -count 1 -v -timeout 40m -run 'TestPostgres/reads' .

# After Ctrl-C the program ends with 0; make itself always reports 130, whatever its recipe returns.
.PHONY: debug
debug: override ARGS := -debug-addr 127.0.0.1:0 -duration 0 $(ARGS)
debug: ## acksall until Ctrl-C, with the debug page on a free port (its address is printed)
	@$(call build-and-run,.,./examples/acksall)

##@ Tests

# Modules whose tests take long, and mostly wait: they come first, and others run beside them.
LONG := ./examples/heavy ./plugin/nats
SIDE_BY_SIDE ?= 2
# make lint includes go vet. Without debug information, and with a compiler that collects garbage less often, everything is
# compiled in four fifths of the processor time. The tests themselves run with Go's own GOGC.
TEST_FLAGS := -vet=off -gcflags=all=-dwarf=false -toolexec="env GOGC=400"
# A program with the race detector sleeps for a second before it exits, in case that goroutines still run. Tests leave none.
TEST_ENV := GORACE=atexit_sleep_ms=100

.PHONY: check
check: ## the core and its contract, without the race detector: a quick look, a minute (make test has everything)
	@echo "compiles and tests the core; each package says so when its tests have passed"
	@$(GO) test -short . ./operation ./timer ./watchers ./reaper ./purgatory/... ./internal/... ./future ./watermark ./examples/quickstart

.PHONY: test
test: ## every test of the library and of every nested module, under the race detector: five minutes on two processors
	@$(if $(RACE),,echo "no C compiler ($(CC_NAME)): the tests run WITHOUT the race detector")
	@echo "$(words $(MODULES)) modules, $(SIDE_BY_SIDE) at a time; the output of each comes when it has ended"
	@$(call in-modules,$(LONG) $(filter-out $(LONG),$(MODULES)),$(TEST_ENV) $(GO) test $(RACE) $(TEST_FLAGS) -timeout $(TEST_TIMEOUT) ./...,$(SIDE_BY_SIDE))

PLATFORMS := linux/arm linux/riscv64 windows/amd64 darwin/arm64 js/wasm

.PHONY: test-32
test-32: ## the library's tests on 32 bits: 386, or arm under qemu-arm where 386 does not run
	@if GOARCH=386 $(GO) test -run '^$$' ./operation >/dev/null 2>&1; then \
		GOARCH=386 $(GO) test -timeout $(TEST_TIMEOUT) ./...; exit; \
	fi; \
	echo "386 does not run here: it is only built and vetted"; \
	GOARCH=386 $(GO) build ./...; \
	GOARCH=386 $(GO) vet ./...; \
	if ! command -v qemu-arm >/dev/null; then echo "SKIPPED: there is no qemu-arm to run those of arm either"; exit; fi; \
	echo "those of arm run under qemu-arm, which takes up to ten times as long: with -short"; \
	GOARCH=arm $(GO) test -short -exec qemu-arm -timeout $(TEST_TIMEOUT) ./...

.PHONY: platforms
platforms:
	@echo $(PLATFORMS)

.PHONY: vet-platforms
vet-platforms: ## go vet of the library for other systems and processors
	@for platform in $(PLATFORMS); do \
		echo "--- $$platform"; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) vet ./...; \
	done

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZ_TIME (default 20s) each
	@found=0; \
	for module in $(MODULES); do \
		cd $(CURDIR)/$$module; \
		targets=$$($(GO) test -list '^Fuzz' ./... | awk '/^Fuzz/ { name[++n] = $$1 } /^ok/ { for (; n > 0; n--) print $$2, name[n] }'); \
		while read -r package target; do \
			[ -n "$$target" ] || continue; \
			echo "--- $$package: $$target for $(FUZZ_TIME)"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_TIME) -fuzzminimizetime 20x $$package; \
			found=$$((found + 1)); \
		done <<< "$$targets"; \
	done; \
	echo "fuzz: $$found targets, $(FUZZ_TIME) each, nothing found"

##@ Proof

.PHONY: model
model: ## the protocol's models under spin, and the known bugs that they must find
	./proof/model/run.sh $(ARGS)

.PHONY: interleave
interleave: ## every interleaving of small scenarios on the real code, up to a bound on preemptions
	./proof/interleave/run.sh $(ARGS)

.PHONY: explore
explore: ## random programs under random schedules for TIME (default 60s), on all processors
	TIME=$(TIME) ./proof/programs/run.sh $(ARGS)

RACE_PROGRAMS ?= 200000
ARM_PROGRAMS ?= 20000
PLUGIN_PROGRAMS ?= 5000

.PHONY: programs
programs: ## random programs on Go's own goroutines, under the race detector and as arm, and those of the plugins: once a release
	@$(if $(RACE),,echo "SKIPPED: no C compiler ($(CC_NAME)), and so no race detector"; exit;) \
	$(GO) test $(RACE) -tags invariants -count=1 -v -timeout 60m ./proof/programs -args -programs $(RACE_PROGRAMS)
	cd plugin/postgres && POSTGRES_PROGRAMS=$(PLUGIN_PROGRAMS) $(GO) test -count=1 -timeout 60m -run 'TestPrograms$$' .
	cd plugin/nats && NATS_PROGRAMS=$(PLUGIN_PROGRAMS) $(GO) test -count=1 -timeout 60m -run TestPrograms .
	@if ! command -v qemu-arm >/dev/null; then echo "SKIPPED: there is no qemu-arm (Debian: apt-get install qemu-user)"; exit; fi; \
	GOARCH=arm $(GO) test -tags invariants -exec qemu-arm -count=1 -v -timeout 2h ./proof/programs -args -programs $(ARM_PROGRAMS)

.PHONY: raft-check
raft-check: ## 50 seeds of 30 s under faults, every history linearizable; then three known defects, each caught (a quarter of an hour)
	./examples/heavy/raftcheck/check.sh $(ARGS)

.PHONY: stall
stall: ## the core's tests with a library whose locks, atomics and goroutines stall at random: a minute or two
	$(GO) test -tags stall -count=1 -timeout $(TEST_TIMEOUT) $(ARGS) . ./operation ./timer ./watchers ./reaper ./purgatory/... ./internal/... ./signals/... ./future ./watermark

.PHONY: soak
soak: ## a randomised mix for SOAK_TIME (default 1m) with a conservation check each second, and the invariants asserted
	$(GO) run -tags invariants ./proof/soak -for $(SOAK_TIME) $(ARGS)

.PHONY: forgotten
forgotten: ## each check of the example programs taken out, one at a time: it must be reported (half an hour)
	$(GO) run ./proof/forgotten $(ARGS)

.PHONY: seeded
seeded: ## known defects, one at a time, in a copy of the code: each must turn the tests red
	$(GO) run ./proof/seeded $(ARGS)

.PHONY: size
size: ## lines, tokens, words of comments and exported names of the core, and the lines of its tests
	@$(GO) run ./proof/size

.PHONY: instructions
instructions: ## what the ways through the library cost in instructions, beside another revision (ARGS="-against HEAD~"); needs valgrind
	@$(GO) run ./proof/instructions $(ARGS)

.PHONY: mutate
mutate: ## one thing changed at a time in the core: the changes that no test notices, and a table of the packages (hours; ARGS="-since main": minutes)
	$(GO) run ./proof/mutate $(ARGS)

##@ Benchmarks

.PHONY: bench
bench: ## all workloads beside their peers, several rounds, tables, the pages' figures: a quarter of an hour or more
	cd bench && $(GO) run . $(ARGS)

.PHONY: raft-figures
raft-figures: ## what the waits of examples/heavy/raftkv cost, beside the engine's own futures
	cd examples/heavy && $(GO) test -run '^$$' -bench Apply -benchtime 200000x ./raftkv/node
	cd examples/heavy && $(GO) test -run '^$$' -bench Propose -benchtime 6000x ./raftkv/node
	cd examples/heavy && $(GO) test -count 1 -run StuckBatch -v ./raftkv/node

.PHONY: bench-quick
bench-quick: ## the essentials of make bench within a minute
	cd bench && $(GO) run . -quick $(ARGS)

.PHONY: neighbours
neighbours: ## one wait, many, far, given up, one of many, a herd: beside code by hand and other servers', two minutes
	cd bench && $(GO) run ./neighbours $(ARGS)

.PHONY: cores
cores: ## ratios to one processor for 1, 2, 4 … all processors, beside peers, in one file to send in (ARGS=model: simulates larger machines)
	cd bench && $(GO) run ./cores $(ARGS)

##@ Code

.PHONY: fmt
fmt: ## format every Go file with gofumpt
	$(TOOL) gofumpt -w .

.PHONY: fmt-check
fmt-check: ## list the files that gofumpt would change; fails when there are any
	@files=$$($(TOOL) gofumpt -l .); \
	if [ -n "$$files" ]; then echo "not formatted (make fmt mends it):"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## go vet in every module
	@$(call in-modules,$(MODULES),$(GO) vet ./...)

.PHONY: lint
lint: ## golangci-lint in every module; and what the pages and comments name exists
	@$(GO) test ./docs
	@$(call in-modules,$(MODULES),$(TOOL) golangci-lint run --config $(CURDIR)/.golangci.yml ./...)

.PHONY: tidy-check
tidy-check: ## what go mod tidy would change in each module's go.mod; fails when there is anything
	@$(call in-modules,$(MODULES) tools,$(GO) mod tidy -diff)

# What each of the root's requirements is not lower for: the version before it, the package that uses it, and what is missing.
LOWEST := go.uber.org/atomic@v1.9.0=./proof/soak=CompareAndSwap

.PHONY: lowest
lowest: ## that the library's own requirements are no higher than what is used of them
	@low=$$(mktemp -d); trap 'rm -rf "$$low"' EXIT; \
	for line in $(LOWEST); do \
		IFS='=' read -r lower package missing <<<"$$line"; \
		cp go.mod go.sum "$$low"; \
		$(GO) mod edit -require="$$lower" "$$low/go.mod"; \
		found=$$($(GO) vet -mod=mod -modfile="$$low/go.mod" "$$package" 2>&1) && { echo "$$package passes with $$lower: require that"; exit 1; }; \
		grep "$$missing" <<<"$$found" || { echo "$$found"; exit 1; }; \
	done; \
	cp go.mod go.sum "$$low"; \
	$(GO) mod edit -require=github.com/stretchr/testify@v1.7.5 "$$low/go.mod"; \
	$(GO) list -m -mod=mod -modfile="$$low/go.mod" all | grep -F "$$(grep -o 'github.com/stretchr/testify v[0-9.]*' go.mod)" || { \
		echo "nothing else requires this testify: try a lower one"; exit 1; }

.PHONY: vuln
vuln: ## known vulnerabilities in what the library needs (asks the Go vulnerability database)
	$(TOOL) govulncheck ./...

##@ Release

.PHONY: release-check
release-check: ## pack the modules of HEAD as their tags would, and build and run programs that import them (RELEASING.md)
	cd release && $(GO) run . $(ARGS)

.PHONY: ci
ci: ## what continuous integration runs
	./.ci/run

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
