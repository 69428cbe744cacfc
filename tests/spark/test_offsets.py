"""The offsets of the streaming source: bisection rides in them, and survives every restart."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.spark.offsets import SourceOffset

FULL = 500


def test_the_document_of_an_offset_is_json_and_comes_back_as_the_same_offset() -> None:
    offset = SourceOffset(("a1", "b2"), (7, 0), 62, 62, 500)
    assert SourceOffset.of(json.loads(json.dumps(offset.document()))) == offset
    assert SourceOffset().is_start
    assert not offset.is_start


@pytest.mark.parametrize("document", [{}, {"orders": {"0": 17}}, {"agents": ["a"], "leases": None}])
def test_an_offset_of_another_source_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="another source"):
        SourceOffset.of(document)


def test_a_batch_takes_what_the_options_say_when_nothing_has_failed() -> None:
    bite = SourceOffset(("a",), (1,), 500).wanted(FULL, has_failed=False)
    assert bite.most == FULL
    assert bite.taken(("a",), (2,), 480) == SourceOffset(("a",), (2,), 480)


def test_a_failed_batch_is_taken_apart_in_few_deliveries() -> None:
    """The one record that fails each batch is alone after three failures: 500, 62, 7, 1."""
    offset, sizes = SourceOffset(("a",), (1,), 500), []
    for number in range(2, 5):
        bite = offset.wanted(FULL, has_failed=True)
        sizes.append(bite.most)
        offset = bite.taken(("a",), (number,), bite.most)
    assert sizes == [62, 7, 1]


@given(failed=st.integers(1, 2000), poison=st.data())
def test_each_poison_record_ends_alone_and_afterwards_batches_are_whole_again(
    failed: int, poison: st.DataObject
) -> None:
    """Records are given back in order; a batch with the poison record fails until it is alone, and is then archived."""
    bad = poison.draw(st.integers(0, failed - 1))
    records = list(range(failed))
    spent = dict.fromkeys(records, 0)
    offset, has_failed = SourceOffset(("a",), (0,), failed), True
    for lease in range(1, 4 * failed + 20):
        if not records:
            break
        bite = offset.wanted(failed, has_failed=has_failed)
        batch = records[: bite.most]
        offset = bite.taken(("a",), (lease,), len(batch))
        has_failed = bad in batch
        for record in batch:
            spent[record] += 1
        if not has_failed:
            records = records[len(batch) :]
        elif batch == [bad]:
            records.remove(bad)  # archived, or set aside
            has_failed = False
    assert not records
    assert max(spent.values()) <= 5
    assert offset.wanted(failed, has_failed=False).most == failed
