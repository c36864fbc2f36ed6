#!/usr/bin/env bash
# Formatting, vet and all tests of the Go SDK. BUCKSAW_BIN names the program, by default that in target/ of the repository.
set -euo pipefail
cd "$(dirname "$0")"
export GOFLAGS=-buildvcs=false GOWORK=off

unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
    echo "gofmt would change:" "$unformatted" >&2
    exit 1
fi
go vet ./...
# The race detector needs a C compiler.
CGO_ENABLED=1 go test -race -count=1 -timeout=5m ./...
