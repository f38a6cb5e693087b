.PHONY: all build test race lint fuzz bench soak guarantees planted demo ci proto fire

all: build lint test

build:
	go build ./...

test:
	go test ./...

race:
	go test -race ./...

lint:
	go vet ./...
	gofmt -l . | (! grep .)
	go tool -modfile=.ci/tools/go.mod staticcheck ./...

# Each fuzz target for FUZZTIME.
FUZZTIME ?= 30s
fuzz:
	@for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done; \
	done

bench:
	go test -run '^$$' -bench . -benchmem ./...

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

# The checks find every mistake that can be planted.
planted:
	go test -tags plantedbugs -run '^TestPlanted' -v -timeout 30m -count 1 ./emulator_test ./tso

demo:
	go run ./cmd/webindex demo

proto:
	go generate ./tso/...

ci:
	.ci/run
