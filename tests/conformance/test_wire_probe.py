"""The reference broker answers raw requests as Kafka 4.1, 4.2, 4.3 and 4.4 did, line by line.

What differs is listed, with its reason, in `probe_differences`; a difference that is gone has to leave that list.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance.probe_differences import WIRE_DIFFERENCES
from conformance.probe_runs import MINOR_VERSIONS, WIRE, compared, reason_not_to_run

PROCESSES = 6


@pytest.mark.java
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("version", MINOR_VERSIONS)
def test_raw_requests_are_answered_like_kafka_when_the_known_differences_are_left_out(
    version: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    reason = reason_not_to_run(request.config, version)
    if reason is not None:
        pytest.skip(reason)
    known = WIRE_DIFFERENCES[version]
    found = compared(WIRE, version, known, PROCESSES, tmp_path)
    assert not {step: both for step, both in found.items() if step not in known}
    assert not [step for step in known if step not in found], "these agree again: take them off the list"
