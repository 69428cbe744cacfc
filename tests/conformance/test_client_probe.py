"""Apache's own share consumer and admin client see of the reference broker what they saw of Kafka, version by version.

What differs is listed, with its reason, in `probe_differences`; a difference that is gone has to leave that list.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance.probe_differences import CLIENT_DIFFERENCES
from conformance.probe_runs import CLIENT, MINOR_VERSIONS, compared, reason_not_to_run

PROCESSES = 6


@pytest.mark.java
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("version", MINOR_VERSIONS)
def test_apaches_client_sees_what_it_sees_of_kafka_when_the_known_differences_are_left_out(
    version: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    reason = reason_not_to_run(request.config, version)
    if reason is not None:
        pytest.skip(reason)
    known = CLIENT_DIFFERENCES[version]
    found = compared(CLIENT, version, known, PROCESSES, tmp_path)
    assert not {step: both for step, both in found.items() if step not in known}
    assert not [step for step in known if step not in found], "these agree again: take them off the list"
