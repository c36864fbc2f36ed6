#!/usr/bin/env bash
# Starts three nodes on loopback with replication factor 2 and sends them sample logs. Ctrl-C stops all.
set -euo pipefail
cd "$(dirname "$0")"
bucksaw=${BUCKSAW_BIN:-./target/release/bucksaw}
data=${BUCKSAW_CLUSTER_DIR:-./target/cluster}
# The first port of the first node; each further node adds ten. 0 picks free ports.
base=${BUCKSAW_CLUSTER_PORT:-7660}
rate=${BUCKSAW_CLUSTER_RATE:-50}
[ -x "$bucksaw" ] || { echo "$bucksaw is missing: build it with 'make build'" >&2; exit 1; }
# Settings of the shell that would make the first node join another cluster.
unset BUCKSAW_JOIN BUCKSAW_CONFIG

mkdir -p "$data"
# The cluster secret; all nodes have the same file.
secret=$data/cluster.secret
[ -s "$secret" ] || (umask 077; head -c 32 /dev/urandom | base64 >"$secret")

pids=()
stop() {
    trap - EXIT INT TERM
    # Nodes hand their queues to the stores before they end, which takes long when all end at once. A second signal ends them;
    # the next start continues.
    for _ in $(seq 2); do
        # `jobs` lists only the first process of a pipe.
        kill $(jobs -pr) ${pids[3]:+"${pids[3]}"} 2>/dev/null || true
        for _ in $(seq 50); do
            [ -n "$(jobs -pr)" ] || return 0
            sleep 0.1
        done
    done
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

port() { if [ "$base" = 0 ]; then echo 0; else echo $((base + 10 * ($1 - 1) + $2)); fi; }
# The file of addresses is replaced at each start, so another inode means that the node of this script wrote it.
inode() { ls -i "$data/node$1/addresses.json" 2>/dev/null | awk '{ print $1 }' || true; }
address() { sed -n "s/.*\"$2\": *\"\([^\"]*\)\".*/\1/p" "$data/node$1/addresses.json" 2>/dev/null || true; }

# Arguments: the node's number, and flags. With job control the node has a process group of its own, so Ctrl-C reaches it
# once, through the trap.
start() {
    before=$(inode "$1")
    set -m
    "$bucksaw" serve --data-dir "$data/node$1" --replication-factor 2 --cluster-secret-file "$secret" \
        --listen "127.0.0.1:$(port "$1" 0)" --listen-fast "127.0.0.1:$(port "$1" 1)" \
        --listen-durable "127.0.0.1:$(port "$1" 2)" --listen-bulk "127.0.0.1:$(port "$1" 3)" \
        --listen-cluster "127.0.0.1:$(port "$1" 9)" --log-level warn "${@:2}" </dev/null &
    node=$!
    set +m
    pids+=("$node")
    for _ in $(seq 300); do
        kill -0 "$node" 2>/dev/null || { echo "Node $1 did not start: see the error above." >&2; exit 1; }
        if [ -n "$(inode "$1")" ] && [ "$(inode "$1")" != "$before" ] &&
            "$bucksaw" status --addr "http://$(address "$1" http)" --timeout 5s >/dev/null 2>&1; then
            return
        fi
        sleep 0.1
    done
    echo "Node $1 is not ready after half a minute." >&2
    exit 1
}

start 1
start 2 --join "$(address 1 cluster)"
start 3 --join "$(address 1 cluster)"
to="$(address 1 fast),$(address 2 fast),$(address 3 fast)"
at="--addr http://$(address 1 http)"

cat <<END

A cluster of three nodes is running with replication factor 2. Its data is in $data.

  node 1    http://$(address 1 http)    process ${pids[0]}
  node 2    http://$(address 2 http)    process ${pids[1]}
  node 3    http://$(address 3 http)    process ${pids[2]}

Each node serves the page and answers for all. They receive $rate sample lines per second. In another terminal, try:

  $bucksaw status $at
  $bucksaw query $at --since 5m -c level=error
  kill -9 ${pids[2]}                      lose a node, then query another
  $bucksaw status $at
  $bucksaw query $at --since 5m --stats --allow-partial -c level=error

Two stores are left, which is enough for replication factor 2. Start the node again:

  $bucksaw serve --data-dir $data/node3 --replication-factor 2 --cluster-secret-file $secret --join $(address 1 cluster) \\
    --listen $(address 3 http) --listen-fast $(address 3 fast) --listen-durable $(address 3 durable) --listen-bulk $(address 3 bulk) --listen-cluster $(address 3 cluster)

Ctrl-C stops all.

END
# Until a signal comes. A forwarder that loses its node goes on with the next.
"$bucksaw" generate --rate "$rate" | "$bucksaw" forward --to "$to" --label app=sample &
pids+=($!)
wait "${pids[3]}"
