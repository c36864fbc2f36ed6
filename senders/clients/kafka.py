"""Sends numbered messages to a topic of Kafka, and states after each 500 how many the broker has acknowledged."""

import json
import sys
import time

from confluent_kafka import Producer

address, topic, kind, first, count = sys.argv[1:]
acknowledged = 0


def acknowledge(error, _message):
    global acknowledged
    if error:
        sys.exit(f"not delivered: {error}")
    acknowledged += 1
    if acknowledged % 500 == 0:
        print(acknowledged, flush=True)


# Idempotent, so that a retry after the broker was killed is no second message.
producer = Producer(
    {
        "bootstrap.servers": address,
        "enable.idempotence": True,
        "linger.ms": 5,
        "compression.type": "zstd",
        "message.timeout.ms": 120_000,
    }
)


def plain(number):
    return {
        "key": f"customer {number % 7}",
        "value": f'order {number} of "Müller & Söhne"',
        "headers": [("trace_id", f"{number:032x}")] if number % 3 == 0 else None,
    }


def mapped(number):
    # An hour ago, in a fraction of a second that no clock has by chance.
    at = time.strftime("%Y-%m-%dT%H:%M:%S.123456Z", time.gmtime(time.time() - 3600))
    value = {"time": at, "app": "shop", "msg": f"paid {number}", "amount": {"eur": 7}}
    values = [json.dumps(value), None, '{"broken":', '{"no":"message"}']
    return {
        "key": f"customer {number}",
        "value": values[number],
        "headers": [("host", f"h{number}"), ("trace_id", "4bf9")],
    }


def bulk(number):
    return {"value": f"INFO checkout order placed by customer {number % 9973} in {number % 487} ms, number {number}"}


make = {"plain": plain, "json": mapped, "bulk": bulk}[kind]
for number in range(int(first), int(first) + int(count)):
    message = make(number)
    while True:
        try:
            producer.produce(topic, on_delivery=acknowledge, **message)
            break
        except BufferError:
            producer.poll(0.1)
    producer.poll(0)
    if kind != "bulk" and number % 100 == 0:
        # Time in which a node or the broker can be killed.
        time.sleep(0.02)
producer.flush()
