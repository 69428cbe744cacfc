"""Producers of the simulation: record batches straight into the leaders' logs, each value naming its own place."""

from __future__ import annotations

from simulation.broker import EPOCH_MS, SimulatedBroker
from simulation.client_audit import value_of
from simulation.fault_profile import POISON
from simulation.plan import Flavour, PlannedBatch
from simulation.trace import Trace

from kafka_share.broker.storage.topics import Partition
from kafka_share.protocol.record_batches import encode_batch
from kafka_share.protocol.record_encoder import RecordToWrite

_PRODUCER_ID = 7


def produce(broker: SimulatedBroker, batch: PlannedBatch, trace: Trace) -> None:
    """Append a batch to one of the partitions that have a leader now; none: it is lost, as a producer's would be."""
    partitions = [p for topic in broker.cluster.topics.public() for p in topic.partitions if p.leader_id >= 0]
    if not partitions:
        return
    partition = partitions[batch.pick % len(partitions)]
    if batch.flavour is not Flavour.PLAIN:
        trace.count(batch.flavour.value)
    trace.count("records produced", batch.records)
    if trace.is_on:
        end = partition.log.high_watermark
        trace.add("PRODUCE", partition.topic, partition.partition, f"{end}-{end + batch.records - 1}", batch.flavour)
    broker.act(lambda: _append(broker, partition, batch))


def _append(broker: SimulatedBroker, partition: Partition, batch: PlannedBatch) -> None:
    now_ms = broker.now_ms
    if batch.flavour is Flavour.CONTROL:
        broker.cluster.write_marker(partition, (_PRODUCER_ID, 0), committed=True, now_ms=now_ms)
        return
    first = partition.log.high_watermark
    poison = POISON if batch.flavour is Flavour.POISON else b""
    records: list[RecordToWrite] = [
        (
            i,
            now_ms - EPOCH_MS,
            None,
            (poison if i == 0 else b"") + value_of(partition.topic, partition.partition, first + i),
            [],
        )
        for i in range(batch.records)
    ]
    data = encode_batch(records, codec="lz4" if batch.flavour is Flavour.COMPRESSED else "none")
    if batch.flavour is Flavour.CORRUPT:
        data = data[:-1] + bytes([data[-1] ^ 0xFF])
        broker.cluster.append_unchecked(partition, data, now_ms)
    else:
        broker.cluster.append(partition, data, now_ms)
