#!/usr/bin/env bash
# Starts a node and sends it sample logs. Ctrl-C stops both.
# BUCKSAW_BIN names the program. Every other variable BUCKSAW_* is a setting of the node, as for `bucksaw serve`.
set -euo pipefail
cd "$(dirname "$0")"
bucksaw=${BUCKSAW_BIN:-./target/release/bucksaw}
[ -x "$bucksaw" ] || { echo "$bucksaw is missing: build it with 'make build'" >&2; exit 1; }

# The settings in use, whether from the environment, from a file, or by default.
settings=$("$bucksaw" config show serve)
setting() { sed -n "s/^$1 = \"\(.*\)\" # .*/\1/p" <<<"$settings"; }
data=$(setting data-dir)
case $settings in *'log-level = "info" # default'*) export BUCKSAW_LOG_LEVEL=warn ;; esac

addresses=$data/addresses.json
address() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$addresses" 2>/dev/null || true; }
# The file is replaced at each start, so another inode means that the node of this script wrote it.
inode() { ls -i "$addresses" 2>/dev/null | awk '{ print $1 }' || true; }
before=$(inode)

pids=()
stop() {
    trap - EXIT INT TERM
    kill ${pids[@]+"${pids[@]}"} 2>/dev/null || true
    wait 2>/dev/null || true
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# With job control the node has a process group of its own, so Ctrl-C reaches it once, through the trap.
set -m
"$bucksaw" serve </dev/null &
node=$!
set +m
pids+=("$node")

# Ends with the error of the node, which is on standard error.
failed() {
    echo "The node did not start: see the error above." >&2
    exit 1
}
for _ in $(seq 300); do
    kill -0 "$node" 2>/dev/null || failed
    [ -n "$(inode)" ] && [ "$(inode)" != "$before" ] && break
    sleep 0.1
done
[ "$(inode)" != "$before" ] || { echo "The node is not ready after half a minute." >&2; exit 1; }
http=$(address http)
for _ in $(seq 300); do
    [ -n "$http" ] || break
    "$bucksaw" status --addr "http://$http" --timeout 5s >/dev/null 2>&1 && break
    kill -0 "$node" 2>/dev/null || failed
    sleep 0.1
done

at=
[ "$http" = 127.0.0.1:7650 ] || at=" --addr http://$http"
fast=$(address fast)
to=
[ "$fast" = 127.0.0.1:7651 ] || to=" --to $fast"

echo
echo "A node is running; its data is in $data."
echo
[ -z "$http" ] || echo "  HTTP      http://$http    the page, queries, ingest, metrics"
[ -z "$fast" ] || echo "  lines     $fast           acknowledged when written    (nc is a client)"
[ -z "$(address durable)" ] || echo "  lines     $(address durable)           acknowledged when synced"
echo
if [ -z "$http" ] || [ -z "$fast" ]; then
    echo "It has no HTTP address or no port for lines, so it receives no sample lines."
    echo "Ctrl-C stops the node."
    wait "$node"
    exit
fi
cat <<END
The node receives 50 sample lines per second. In another terminal, try:

  $bucksaw query$at --since 5m error
  $bucksaw query$at --since 5m -c level=error
  $bucksaw tail$at 'status>=500'
  echo "hello from \$(hostname)" | $bucksaw forward$to --label app=me
  $bucksaw query$at app=me

Ctrl-C stops the node.

END
"$bucksaw" generate --rate 50 | "$bucksaw" forward --to "$fast" --durability fast --label app=sample &
sample=$!
pids+=("$sample")
# Until one of them ends.
while kill -0 "$node" 2>/dev/null && kill -0 "$sample" 2>/dev/null; do sleep 1; done
kill -0 "$node" 2>/dev/null || echo "The node has ended." >&2
exit 1
