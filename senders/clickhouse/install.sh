#!/bin/sh
# Installs the ClickHouse server of the tests: install.sh DIRECTORY
# Afterwards DIRECTORY has libchdb.so (566 MB, version in package.json) and launcher, which runs it.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
target=$1
for tool in npm cc; do
    command -v "$tool" >/dev/null || { echo "$tool is missing: tests with ClickHouse need Node.js 20 and a C compiler" >&2; exit 1; }
done
mkdir -p "$target"
cp "$source/package.json" "$source/package-lock.json" "$target"
(cd "$target" && npm ci --no-audit --no-fund --silent)
cc -O1 -Wall -Werror -o "$target/launcher" "$source/launcher.c" -ldl
ln -sf node_modules/@chdb/lib-linux-x64-gnu/libchdb.so "$target/libchdb.so"
