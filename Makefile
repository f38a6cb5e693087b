.PHONY: all build test race lint fuzz bench demo ci proto

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

demo:
	go run ./cmd/webindex demo

proto:
	go generate ./tso/...

ci:
	.ci/run
