.PHONY: all build test race lint fuzz bench bench-long benchstat soak guarantees mutants upgrade demo ci proto fire terraform sbom vulncheck lint-workflows cross snapshot image

all: build lint test

# The modules that go.work joins, and a tool of .ci/tools, which go refuses within a workspace.
MODULES = . emulator_test cmd/webindex cmd/percolator-bench docs/examples
TOOL = GOWORK=off go tool -modfile=$(abspath .ci/tools/go.mod)

# Where programs are built that are run here.
BIN ?= bin

build:
	go build work

test:
	go test work

race:
	go test -race work

lint:
	go vet work
	gofmt -l . | (! grep .)
	@for module in $(MODULES); do (cd $$module && $(TOOL) staticcheck ./...) || exit 1; done

# Each fuzz target for FUZZTIME.
FUZZTIME ?= 30s
fuzz:
	@for pkg in $$(go list work); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done; \
	done

# The benchmarks are a module of their own. go build decides what is up to date.
BENCH_MODULE = cmd/percolator-bench
BENCH_PROGRAM = $(BIN)/percolator-bench
.PHONY: $(BENCH_PROGRAM)
$(BENCH_PROGRAM):
	@go build -C $(BENCH_MODULE) -o $(abspath $(BENCH_PROGRAM)) .

# The short form of every benchmark; docs/internals/BENCHMARKS.md has the figures of the long ones.
bench: $(BENCH_PROGRAM)
	@for name in tso fig7 fig8 fig9 fig10 bad-day latency ops scale observers clumping goals; do \
		echo "$(BENCH_PROGRAM) $$name --short"; \
		$(BENCH_PROGRAM) $$name --short || exit 1; \
	done

# Everything that is measured at length, on both emulators, into BENCH: an hour or so on an idle machine.
BENCH ?= bench-results
bench-long: $(BENCH_PROGRAM)
	@mkdir -p $(BENCH)
	@for emulator in embedded gcloud; do for name in goals fig8 fig7 fig9 fig10 latency ops scale; do \
		echo "$$name on $$emulator"; \
		$(BENCH_PROGRAM) $$name --emulator $$emulator --plot $(BENCH)/$$emulator > $(BENCH)/$$name-$$emulator.txt || exit 1; \
	done; done

# Go's benchmarks of Get and of commits, at BASE and here, compared by benchstat: time, bytes and allocations of an operation.
BASE ?= HEAD
benchstat:
	@rm -rf $(BIN)/base && git worktree prune && git worktree add -q --detach $(BIN)/base $(BASE)
	@for i in 1 2 3 4 5 6; do \
		(cd $(BIN)/base && GOWORK=off go test -run '^$$' -bench 'Get|Set' -benchmem ./percolator) >> $(BIN)/base.txt; \
		go test -run '^$$' -bench 'Get|Set' -benchmem ./percolator >> $(BIN)/here.txt; \
	done
	@$(TOOL) benchstat $(BIN)/base.txt $(BIN)/here.txt
	@rm -f $(BIN)/base.txt $(BIN)/here.txt && git worktree remove --force $(BIN)/base

# Other programs write what import reads, and read what export writes: DuckDB with the statements of docs/DATA.md,
# hyparquet, node.js. The table there is written anew.
.PHONY: files
files:
	npm install --silent --prefix $(BIN)/node hyparquet@1 hyparquet-compressors@1 hyparquet-writer@0.17 @duckdb/node-api@1.5.6-r.1
	go test ./emulator_test/files -v -count 1 -files.node $(abspath $(BIN)/node) -update

# Histories under faults, checked. SOAK is how long.
SOAK ?= 10m
soak:
	go test -race -run 'TestSoak$$' -v -timeout 2h -count 1 ./emulator_test -soak $(SOAK)

# What is promised of notifications, while workers are killed, stopped and added. CHANGES is how many changes come from outside.
CHANGES ?= 10000
guarantees:
	go test -race -run 'TestGuarantees$$' -v -timeout 2h -count 1 ./emulator_test -changes $(CHANGES)

# The oracle's order while its servers, its store and their clocks fail. FIRE is how long.
FIRE ?= 10m
fire:
	go test -race -run 'TestOrderUnderFire$$' -v -timeout 2h -count 1 ./tso -fire $(FIRE)

# Every rule of docs/internals/PROTOCOL.md is broken once, and its test must fail. MUTANTS=-mutants.soak: the soaks must find it.
MUTANTS ?= -mutants
mutants:
	go test ./emulator_test/mutants -v -timeout 3h -count 1 $(MUTANTS)

# Programs of REVISION and of this one beside each other, on one instance.
REVISION ?= $(lastword $(shell cat .ci/release))
upgrade:
	go test ./emulator_test/upgrade -v -timeout 30m -count 1 -revision $(REVISION)

demo:
	go run ./cmd/webindex demo

proto:
	go generate ./tso/...

ci:
	.ci/run

# The module and its examples: format, types, tests. PROVIDERS is a directory with the provider, where the registry is out of reach.
PROVIDERS ?=
terraform:
	terraform/check $(PROVIDERS)

# What the program is made of: its modules with versions, licences and checksums, in the form of CycloneDX.
sbom:
	@mkdir -p $(BIN)
	$(TOOL) cyclonedx-gomod app -json -licenses -main cmd/percolator -output $(BIN)/percolator.cdx.json .
	@echo $(BIN)/percolator.cdx.json

# Known vulnerabilities that the code reaches. It asks vuln.go.dev.
vulncheck:
	@for module in $(MODULES); do (cd $$module && $(TOOL) govulncheck ./...) || exit 1; done

lint-workflows:
	$(TOOL) actionlint

# All platforms of a release compile, and their tests.
cross:
	@for platform in darwin/arm64 windows/amd64 linux/arm64; do \
		echo $$platform; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} go vet work || exit 1; \
	done

# The archives of a release, without releasing them, in dist/. It needs goreleaser.
snapshot:
	goreleaser release --snapshot --clean --skip=sbom

# The container image, as percolator:latest. It needs Docker.
image:
	docker build -t percolator --build-arg VERSION=$$(git describe --tags --always --dirty) --build-arg REVISION=$$(git rev-parse HEAD) .
