"""Bucksaw's own service, with code made of its published .proto: `bucksaw_grpc.py ADDRESS COUNT write|read`.

`write` sends batches until each has a reply, over restarts of the node. `read` also queries, counts and tails what it sends.
"""

import json
import pathlib
import queue
import sys
import tempfile
import threading
import time
import uuid

import grpc
from common import arguments, fail, records
from grpc_tools import protoc

BATCH_RECORDS = 10

proto = pathlib.Path(__file__).resolve().parents[2] / "proto"
made = tempfile.TemporaryDirectory()
flags = [f"-I{proto}", f"--python_out={made.name}", f"--grpc_python_out={made.name}"]
if protoc.main(["protoc", *flags, "bucksaw/v1/bucksaw.proto"]) != 0:
    fail("protoc failed")
sys.path.insert(0, made.name)
from bucksaw.v1 import bucksaw_pb2 as pb  # noqa: E402
from bucksaw.v1 import bucksaw_pb2_grpc as rpc  # noqa: E402

host, port, count = arguments()
backoff = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
channel = grpc.insecure_channel(f"{host}:{port}", options=backoff)
bucksaw = rpc.BucksawStub(channel)
labels = {"service.name": "shop", "mode": sys.argv[3]}
sent_times = []


class Sender:
    """Sends each batch until the node has replied to it."""

    def __init__(self):
        self.requests = self.replies = None

    def send(self, batch):
        while True:
            if self.replies is None:
                self.requests = queue.SimpleQueue()
                requests = iter(self.requests.get, None)
                self.replies = bucksaw.Ingest(requests, compression=grpc.Compression.Gzip, wait_for_ready=True)
            self.requests.put(batch)
            try:
                reply = next(self.replies)
            except (grpc.RpcError, StopIteration):
                self.close()
                continue
            if reply.retry:
                time.sleep(0.05)
            elif reply.code or reply.sequence != batch.sequence or reply.accepted != len(batch.records):
                fail(f"refused: {reply}")
            else:
                return

    def close(self):
        self.requests.put(None)
        self.replies = None


def attribute(name, value):
    return pb.Attribute(name=name, value=value.encode())


def stated(record, nanos):
    """States a record, with its time as a node prints it: in microseconds."""
    sent_times.append(nanos)
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanos // 10**9))
    at = f"{seconds}.{nanos % 10**9 // 1000:06}Z"
    attributes = {"trace_id": record.trace_id, "level": record.level}
    text = {"line": record.message, "time": at, "labels": labels, "attributes": attributes}
    print(json.dumps(text), flush=True)


def write(count):
    sender = Sender()
    start, batch, sequence = time.time_ns() // 10**9 * 10**9 + 7, None, 0
    for record in records(count):
        if batch is None:
            sequence += 1
            durability = pb.DURABILITY_DURABLE if sequence % 2 else pb.DURABILITY_FAST
            batch = pb.IngestBatch(
                sequence=sequence, idempotency_key=str(uuid.uuid4()), durability=durability, labels=labels
            )
        nanos = start + record.n * 1000
        attributes = [attribute("trace_id", record.trace_id), attribute("level", record.level)]
        batch.records.add(time_unix_nano=nanos, line=record.message.encode(), attributes=attributes)
        stated(record, nanos)
        if len(batch.records) == BATCH_RECORDS or record.n == count - 1:
            sender.send(batch)
            batch = None
    sender.close()


def check(is_right, what):
    if not is_right:
        fail(what)


def read():
    tail = bucksaw.Tail(pb.TailRequest(expression=b"mode=read"))
    # The node has answered the call, so it follows from here on.
    tail.initial_metadata()
    seen, has_all = set(), threading.Event()

    def follow():
        try:
            for reply in tail:
                seen.update(record.id for record in reply.records)
                if len(seen) == count:
                    has_all.set()
        except grpc.RpcError as error:
            check(error.code() == grpc.StatusCode.CANCELLED, f"the tail ended: {error}")

    follower = threading.Thread(target=follow)
    follower.start()
    write(count)
    check(has_all.wait(60), f"the tail has {len(seen)} of {count} records")
    tail.cancel()
    follower.join()
    counted = bucksaw.Count(pb.CountRequest(expression=b"mode=read"), compression=grpc.Compression.Gzip, timeout=60)
    check(counted.count == count and not counted.statistics.partial, f"counted {counted}")
    request = pb.QueryRequest(expression=b"mode=read", order=pb.ORDER_DESCENDING)
    replies = list(bucksaw.Query(request, timeout=60))
    found = [record for reply in replies for record in reply.records]
    check({record.id for record in found} == seen, "the query has other records than the tail")
    check(found == sorted(found, key=lambda record: record.id, reverse=True), "the order is wrong")
    # Batches of the same millisecond have any order.
    check(sorted(record.time_unix_nano for record in found) == sent_times, "the times are wrong")
    check(replies[-1].statistics.matched == count, f"statistics {replies[-1].statistics}")
    # A page after the newest two.
    request.limit, request.after = 3, found[1].id
    page = [record.id for reply in bucksaw.Query(request) for record in reply.records]
    check(page == [record.id for record in found[2:5]], f"a page has {page}")
    try:
        bucksaw.Count(pb.CountRequest(expression=b"("))
        fail("a wrong expression was taken")
    except grpc.RpcError as error:
        check(error.code() == grpc.StatusCode.INVALID_ARGUMENT and "q:" in error.details(), f"{error}")
    # A call that is cancelled midway leaves the node as it was.
    cancelled = bucksaw.Query(pb.QueryRequest(expression=b"mode=read"))
    next(cancelled)
    cancelled.cancel()
    check(bucksaw.Count(pb.CountRequest(expression=b"mode=read")).count == count, "after a cancelled query")


read() if sys.argv[3] == "read" else write(count)
channel.close()
