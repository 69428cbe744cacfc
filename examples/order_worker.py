"""A worker service, whole: what failures mean, a probe and numbers over HTTP, a clean stop on SIGTERM and Ctrl-C.

    python examples/order_worker.py                               # ten sample orders on a broker that it starts
    python examples/order_worker.py --bootstrap-server localhost:9092 --topic orders --group order-workers --port 8080

An order is JSON, such as {"order": 1}. What it shows:

- a failure that may pass is tried again after a pause, under a lock that is renewed: that spends no delivery
- an order that can never be packed, and a record that is not even JSON, are rejected; the log on standard error says so
- GET /healthz is for a liveness probe, GET /metrics for Prometheus
- a signal drains: what runs may end, what has not begun is released for others
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kafka_share import ShareRecord, ShareWorker
from kafka_share.broker import ReferenceBroker
from kafka_share.errors import RecordDeserializationError
from kafka_share.worker import Lease, Reject, Retry

SAMPLE_ORDERS = [*(b'{"order": %d}' % number for number in range(1, 10)), b"this is not JSON"]


class UnknownCustomerError(Exception):
    """This order can never be packed."""


def pack(record: ShareRecord[Any, Any], lease: Lease) -> None:
    """The work; the sample orders 3 and 5 are made to fail."""
    order = record.value["order"]
    if order == 3 and lease.tries == 1:
        raise ConnectionError("the warehouse is away")
    if order == 5:
        raise UnknownCustomerError("there is no such customer")
    print(f"order {order}: packed with call {lease.tries}\n", end="", flush=True)


def made(options: argparse.Namespace, servers: str) -> ShareWorker[Any, Any]:
    return ShareWorker(
        options.topic,
        pack,
        bootstrap_servers=servers,
        group_id=options.group,
        value_deserializer=json.loads,
        concurrency=options.concurrency,
        drain_timeout_ms=20_000,
        on_error={
            ConnectionError: Retry(attempts=5, backoff_ms=100),
            UnknownCustomerError: Reject(),
            RecordDeserializationError: Reject(),
        },
    )


@contextlib.contextmanager
def answering(worker: ShareWorker[Any, Any], port: int) -> Generator[int]:
    """Serves the probe and the numbers; gives the port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_fine = worker.is_healthy()
            self.send_response(200 if is_fine or self.path == "/metrics" else 503)
            self.end_headers()
            text = metrics_of(worker) if self.path == "/metrics" else f"{worker.inspect().phase}\n"
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """A probe every few seconds is no news."""

    with ThreadingHTTPServer(("", port), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def metrics_of(worker: ShareWorker[Any, Any]) -> str:
    """In the words of Prometheus: kafka_share_worker_accepted_total 8."""
    numbers = worker.metrics().get("consumer-share-worker-metrics", {})
    return "".join(f"kafka_share_worker_{name.replace('-', '_')} {value:g}\n" for name, value in numbers.items())


@contextlib.contextmanager
def ending_after(worker: ShareWorker[Any, Any], orders: int | None) -> Generator[None]:
    """Stops the worker when so many orders are settled; None: a signal does."""
    over = threading.Event()

    def look() -> None:
        while orders is not None and not over.wait(0.02):
            counts = worker.inspect().counts
            if counts.accepted + counts.rejected >= orders:
                worker.stop()
                return

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()


@contextlib.contextmanager
def sample_broker(topic: str, group: str) -> Generator[str]:
    with ReferenceBroker() as broker:
        broker.create_topic(topic)
        broker.set_group_config(group, share_auto_offset_reset="earliest")
        broker.produce_batch(topic, SAMPLE_ORDERS)
        yield broker.bootstrap_servers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT", help="default: a new broker with samples")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--group", default="order-workers")
    parser.add_argument("--concurrency", type=int, default=4, help="how many orders are packed at a time")
    parser.add_argument("--port", type=int, default=0, help="for /healthz and /metrics; 0 takes a free one")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    with contextlib.ExitStack() as stack:
        servers, orders = options.bootstrap_server, None
        if servers is None:
            servers, orders = stack.enter_context(sample_broker(options.topic, options.group)), len(SAMPLE_ORDERS)
        worker = made(options, servers)
        port = stack.enter_context(answering(worker, options.port))
        print(f"probe: http://127.0.0.1:{port}/healthz", flush=True)
        stack.enter_context(ending_after(worker, orders))
        worker.run()
    counts = worker.inspect().counts
    print(f"{counts.accepted} packed, {counts.rejected} rejected, {counts.released} released, {counts.retried} retried")


if __name__ == "__main__":
    main()
