#!/bin/sh
# Checks the formatting, compiles without warnings, builds the jar with its sources and its
# documentation, and runs all tests. BUCKSAW_BIN names the program that they run against.
set -eu
cd "$(dirname "$0")"
mvn -B -ntp -q package -DskipTests
exec mvn -B -ntp surefire:test
