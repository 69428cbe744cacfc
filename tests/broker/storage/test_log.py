from __future__ import annotations

import pytest
from broker.cluster_world import START_MS, batch

from kafka_share.broker.storage.log import Log
from kafka_share.broker.storage.producers import AppendedBatch, ProducerStates, SequenceVerdict
from kafka_share.broker.storage.stored_batch import StoredBatch
from kafka_share.errors import OffsetOutOfRangeError
from kafka_share.protocol.durations import parse_duration_ms
from kafka_share.protocol.record_batches import control_batch, iter_batches


def filled(*counts: int) -> Log:
    log = Log()
    for index, count in enumerate(counts):
        log.append(batch(count, START_MS + 1_000 * index), 3, START_MS)
    log.check()
    return log


def test_offsets_and_leader_epoch_are_written_into_the_batch_when_it_is_appended() -> None:
    log = filled(2, 3)
    assert log.high_watermark == log.last_stable_offset == 5
    (stored,) = log.read(2, 1, 5)
    (decoded,) = iter_batches(stored.data)
    decoded.verify_crc()
    assert (decoded.base_offset, decoded.last_offset, decoded.partition_leader_epoch) == (2, 4, 3)


def test_several_batches_get_offsets_one_after_the_other_when_they_come_together() -> None:
    log = Log()
    assert log.append(batch(2) + batch(3), 0, START_MS) == (0, 4)
    assert [(b.base_offset, b.last_offset) for b in log.read(0, 10_000, 5)] == [(0, 1), (2, 4)]


def test_a_read_begins_with_the_batch_that_holds_the_offset_and_gives_at_least_one() -> None:
    log = filled(2, 3, 1)
    size = len(log.read(0, 1, 6)[0].data)
    assert [b.base_offset for b in log.read(1, 1, 6)] == [0]
    assert [b.base_offset for b in log.read(1, 10 * size, 6)] == [0, 2, 5]
    assert [b.base_offset for b in log.read(1, 10 * size, 5)] == [0, 2]
    assert not log.read(6, 100, 6)
    for outside in (-1, 7):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(outside, 1, 6)


def test_a_read_gives_the_batches_that_fit_and_begin_before_the_end() -> None:
    log = filled(2, 3, 1, 4, 2)
    log.delete_records(2)
    kept = log.read(2, 1_000_000, 12)
    assert [b.base_offset for b in kept] == [2, 5, 6, 10]
    for offset in range(2, 13):
        for end in range(offset, 13):
            for max_bytes in range(0, sum(len(b.data) for b in kept) + 2, 7):
                expected: list[StoredBatch] = []
                for b in kept:
                    fits = sum(len(one.data) for one in [*expected, b]) <= max_bytes or not expected
                    if b.last_offset < offset:
                        continue
                    if b.base_offset >= end or not fits:
                        break
                    expected.append(b)
                found = log.read(offset, max_bytes, end)
                assert list(found) == expected, (offset, max_bytes, end)
                assert found.size_bytes == sum(len(b.data) for b in expected)


def test_the_bytes_between_offsets_are_those_that_a_read_would_give() -> None:
    log = filled(2, 3, 1)
    for offset in range(7):
        for end in range(offset, 7):
            expected = sum(len(b.data) for b in log.read(offset, 1_000_000, end)) if offset < end else 0
            assert log.bytes_between(offset, end) == expected, (offset, end)


def test_the_start_moves_and_whole_batches_go_when_records_are_deleted() -> None:
    log = filled(2, 3, 1)
    assert log.delete_records(3) == 3
    found = log.read(3, 1_000_000, 6)
    assert [b.base_offset for b in found] == [2, 5]
    assert found.size_bytes == sum(len(b.data) for b in found)
    assert log.delete_records(1) == 3
    assert log.bytes_between(0, 6) == sum(len(b.data) for b in log.read(3, 1_000_000, 6))
    assert log.delete_records(100) == 6
    log.check()
    assert log.append(batch(1), 0, START_MS) == (6, 6)


def test_the_first_record_that_is_not_older_is_found_when_a_time_is_asked_for() -> None:
    log = filled(2, 3)
    assert log.offset_for_timestamp(0) == (0, START_MS)
    assert log.offset_for_timestamp(START_MS + 2) == (2, START_MS + 1_000)
    assert log.offset_for_timestamp(START_MS + 1_002) == (4, START_MS + 1_002)
    assert log.offset_for_timestamp(START_MS + 1_003) is None
    log.delete_records(1)
    assert log.offset_for_timestamp(0) == (1, START_MS + 1)


def test_the_stable_end_waits_for_the_marker_when_a_transaction_is_open() -> None:
    log = filled(1)
    log.append(batch(2, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True), 0, START_MS)
    log.append(batch(1), 0, START_MS)
    assert (log.last_stable_offset, log.high_watermark) == (1, 4)
    log.append(control_batch("abort", producer_id=9, producer_epoch=0, timestamp=START_MS), 0, START_MS)
    assert (log.last_stable_offset, log.high_watermark) == (5, 5)
    assert list(log.aborted_ranges(0, 5)) == [(9, 1, 4)]
    assert list(log.aborted_ranges(0, 0)) == []


def test_a_committed_transaction_leaves_nothing_behind() -> None:
    log = Log()
    log.append(batch(2, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True), 0, START_MS)
    log.append(control_batch("commit", producer_id=9, producer_epoch=0, timestamp=START_MS), 0, START_MS)
    assert log.last_stable_offset == 3
    assert list(log.aborted_ranges(0, 5)) == []


def test_sequence_numbers_are_judged_by_the_last_five_batches() -> None:
    states = ProducerStates()
    for index in range(7):
        assert states.judge(1, 0, index, index) == (SequenceVerdict.APPEND, None)
        states.appended(1, 0, AppendedBatch(index, index, 100 + index), 0)
    assert states.judge(1, 0, 2, 2) == (SequenceVerdict.DUPLICATE, AppendedBatch(2, 2, 102))
    assert states.judge(1, 0, 1, 1)[0] is SequenceVerdict.OUT_OF_ORDER
    assert states.judge(1, 0, 8, 8)[0] is SequenceVerdict.OUT_OF_ORDER
    assert states.judge(1, 1, 0, 0)[0] is SequenceVerdict.APPEND
    assert states.judge(1, 1, 7, 7)[0] is SequenceVerdict.OUT_OF_ORDER
    states.appended(1, 1, AppendedBatch(0, 0, 200), 0)
    assert states.judge(1, 0, 7, 7)[0] is SequenceVerdict.FENCED


def test_sequence_numbers_begin_anew_when_they_reach_their_end() -> None:
    states = ProducerStates()
    states.appended(1, 0, AppendedBatch(2**31 - 2, 2**31 - 1, 0), 0)
    assert states.judge(1, 0, 0, 4)[0] is SequenceVerdict.APPEND


@pytest.mark.parametrize(
    ("text", "span_ms"),
    [("PT1H", 3_600_000), ("P1DT2M", 86_520_000), ("PT0.5S", 500), ("-PT1H", -3_600_000), ("pt1m", 60_000)],
)
def test_a_duration_is_read_as_java_reads_it(text: str, span_ms: int) -> None:
    assert parse_duration_ms(text) == span_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1h", "P1DT", "PT1", "P1H", "PT1H "])
def test_a_duration_is_refused_when_it_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="ISO-8601"):
        parse_duration_ms(text)
