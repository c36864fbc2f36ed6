#!/usr/bin/env bash
# Runs fuzz targets, each for SECONDS: run.sh CARGO-FUZZ SECONDS [TARGET…]
set -euo pipefail
fuzz=$(realpath "${1:?usage: run.sh CARGO-FUZZ SECONDS [TARGET…]}")
seconds=${2:-60}
shift 2 || true
cd "$(dirname "$0")/.."
rustup toolchain list | grep -q nightly || rustup toolchain install nightly --profile minimal
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <("$fuzz" list)
for target in "${targets[@]}"; do
    echo "== $target, ${seconds} s"
    RUSTUP_TOOLCHAIN=nightly "$fuzz" run "$target" -- -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1
done
echo "fuzzing: ${#targets[@]} passed, 0 failed"
