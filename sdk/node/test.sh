#!/bin/sh
# Installs what the tests need, builds, lints and tests. The last lines are the summary of Node's test runner.
# BUCKSAW_BIN names the program, by default target/release/bucksaw or target/debug/bucksaw of the repository.
set -eu
cd "$(dirname "$0")"
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
node build.mjs
node_modules/.bin/biome check --error-on-warnings .
rm -rf build
node_modules/.bin/tsc -p tsconfig.test.json
exec node --test --test-reporter=spec build/
