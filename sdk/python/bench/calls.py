"""Measures how long one logging call takes while a node receives the records.

    BUCKSAW_BIN=… python bench/calls.py

Prints microseconds. Threads share one interpreter, so a call may include the time in which another thread runs.
For comparison it measures the same calls with a handler that does nothing.
"""

import argparse
import logging
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import bucksaw  # noqa: E402
from tests.node import Node  # noqa: E402

HEADER = "handler threads    calls/s    p50 µs    p99 µs  p99.9 µs    max µs"


def measure(logger: logging.Logger, calls: int, rate: int, durations: list[int]) -> None:
    """Logs at a rate in calls per second, 0 without pauses, and appends the duration of each call in ns."""
    start = time.perf_counter()
    for number in range(calls):
        before = time.perf_counter_ns()
        logger.info("order %d is paid", number, extra={"order": number, "user": "u7", "amount": 12.5})
        durations.append(time.perf_counter_ns() - before)
        if rate and (ahead := start + (number + 1) / rate - time.perf_counter()) > 0:
            time.sleep(ahead)


def restart_midway(node: Node, durations: list[list[int]], calls: int) -> None:
    """Kills the node and starts it again after a third and two thirds of the calls."""
    for part in (1, 2):
        while sum(map(len, durations)) < calls * part // 3:
            time.sleep(0.001)
        node.kill()
        node.start()


def run(node: Node | None, threads: int, calls: int, rate: int, restarts: bool = False) -> None:
    """Prints one line of the table. Without a node, the handler does nothing."""
    handler: logging.Handler = logging.NullHandler()
    if node is not None:
        ignore = (lambda _: None) if restarts else None
        handler = bucksaw.Handler(endpoints=node.address, buffer_bytes=256 << 20, close_time=60, on_error=ignore)
    logger = logging.Logger("bench")
    logger.addHandler(handler)
    durations: list[list[int]] = [[] for _ in range(threads)]
    share = calls // threads
    workers = [threading.Thread(target=measure, args=(logger, share, rate // threads, each)) for each in durations]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    if node is not None and restarts:
        restart_midway(node, durations, share * threads)
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - start
    handler.close()
    if isinstance(handler, bucksaw.Handler):
        stats = handler.client.stats()
        if stats.acknowledged != share * threads:
            sys.exit(f"records are missing: {stats}")
    cuts = statistics.quantiles([duration for each in durations for duration in each], n=1000)
    longest = max(map(max, durations))
    p50, p99, p999 = (cuts[at] / 1000 for at in (499, 989, 998))
    name = "bucksaw" if node else "nothing"
    print(
        f"{name} {threads:7} {share * threads / seconds:10.0f} {p50:9.1f} {p99:9.1f} {p999:9.1f} {longest / 1000:9.1f}"
    )


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Measures how long one logging call takes.")
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--rate", type=int, default=10_000, help="calls per second of the paced runs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, Node(Path(directory) / "data") as node:
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {load}")
        for title, rate in [(f"{arguments.rate} calls per second", arguments.rate), ("as fast as possible", 0)]:
            print(f"\n{title}\n{HEADER}")
            for threads in (1, 4):
                calls = min(arguments.calls, 5 * rate) if rate else arguments.calls
                run(None, threads, calls, rate)
                run(node, threads, calls, rate)
        print(f"\n100000 calls while the node is killed and started again twice\n{HEADER}")
        for threads in (1, 4):
            for rate in (arguments.rate, 0):
                run(node, threads, 100_000, rate, restarts=True)


if __name__ == "__main__":
    main()
