#!/usr/bin/env bash
# Starts a node on the default ports and sends it sample logs. Ctrl-C stops both.
set -euo pipefail
cd "$(dirname "$0")"
bucksaw=./target/release/bucksaw
data=${BUCKSAW_DATA_DIR:-./bucksaw-data}

# A separate session, so that Ctrl-C reaches the node once, through the trap.
setsid "$bucksaw" serve --data-dir "$data" --log-level warn &
node=$!
trap 'kill "$node" 2>/dev/null; wait "$node" 2>/dev/null' EXIT
for _ in $(seq 100); do
    "$bucksaw" status >/dev/null 2>&1 && break
    kill -0 "$node" 2>/dev/null || exit 1
    sleep 0.1
done

cat <<END

A node is running; its data is in $data.

  HTTP      http://127.0.0.1:7650    the page, queries, ingest, metrics
  lines     127.0.0.1:7651           acknowledged when written    (nc is a client)
  lines     127.0.0.1:7652           acknowledged when synced

The node receives 50 sample lines per second. In another terminal, try:

  $bucksaw query --since 5m error
  $bucksaw query --since 5m -c level=error
  $bucksaw tail 'status>=500'
  echo "hello from \$(hostname)" | $bucksaw forward --label app=me
  $bucksaw query app=me

Ctrl-C stops the node.

END
"$bucksaw" generate --rate 50 | "$bucksaw" forward --label app=sample
