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
ARGS ?=

# $(call in-modules,what to run in each)
define in-modules
for module in $(MODULES); do \
	echo "--- $$module: $(1)"; \
	(cd $$module && $(1)); \
done
endef

##@ Programs

.PHONY: run
run: ## acks=all cluster on the purgatory, about 10 s (ARGS="-h" lists its flags)
	$(GO) run ./examples/acksall $(ARGS)

.PHONY: longpoll
longpoll: ## HTTP long-poll server under publishers and pollers for a few seconds (ARGS=-demo=false: until Ctrl-C)
	$(GO) run ./examples/longpoll -demo $(ARGS)

.PHONY: sessions
sessions: ## sessions by the hundred thousand with heartbeats; some fall silent, each is found once
	$(GO) run ./examples/sessions $(ARGS)

.PHONY: broker
broker: ## three brokers on loopback that Kafka clients can talk to; runs until Ctrl-C (ARGS="-debug-addr :0": with debug page)
	cd examples/broker && $(GO) run ./cmd/broker $(ARGS)

.PHONY: demo
demo: ## the brokers under load for half a minute, one of them stopped and started again
	cd examples/broker && $(GO) run ./cmd/demo $(ARGS)

.PHONY: debug
debug: ## make run with the debug page on a free port (its address is printed)
	$(GO) run ./examples/acksall -debug-addr 127.0.0.1:0 $(ARGS)

##@ Tests

.PHONY: test
test: ## every test of the library and of every nested module, under the race detector
	@$(if $(RACE),,echo "no C compiler ($(CC_NAME)): the tests run WITHOUT the race detector")
	@$(call in-modules,$(GO) test $(RACE) -timeout $(TEST_TIMEOUT) ./...)

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
	./model/run.sh $(ARGS)

.PHONY: interleave
interleave: ## every interleaving of small scenarios on the real code, up to a bound on preemptions
	./proof/interleave.sh $(ARGS)

.PHONY: soak
soak: ## a randomised mix for SOAK_TIME (default 1m) with a conservation check each second
	$(GO) run ./proof/soak -for $(SOAK_TIME) $(ARGS)

.PHONY: seeded
seeded: ## known defects, one at a time, in a copy of the code: each must turn the tests red
	$(GO) run ./proof/seeded $(ARGS)

##@ Benchmarks

.PHONY: bench
bench: ## all workloads beside their peers, several rounds, tables and plots: six minutes
	cd bench && $(GO) run . $(ARGS)

.PHONY: bench-complete
bench-complete: ## make bench with every peer and parameter in every round: 25 minutes
	cd bench && $(GO) run . -complete $(ARGS)

.PHONY: bench-quick
bench-quick: ## the essentials of make bench within a minute
	cd bench && $(GO) run . -quick $(ARGS)

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
	@$(call in-modules,$(GO) vet ./...)

.PHONY: lint
lint: ## golangci-lint in every module
	@$(call in-modules,$(TOOL) golangci-lint run --config $(CURDIR)/.golangci.yml ./...)

.PHONY: vuln
vuln: ## known vulnerabilities in what the library needs (asks the Go vulnerability database)
	$(TOOL) govulncheck ./...

.PHONY: ci
ci: ## what continuous integration runs
	./.ci/run

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
