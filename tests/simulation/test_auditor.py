"""The auditor is worth what it finds: each known defect, put into the product, has to be complained of."""

from __future__ import annotations

import re

import pytest
from simulation import history as sim_history
from simulation.history import run_history
from simulation.mutations import MUTATIONS
from support.measuring import unmeasured

from kafka_share.native import IS_COMPILED

MAX_SEEDS = 60


@pytest.mark.one_python
@pytest.mark.timeout(180)  # a defect may take many histories to be seen
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what ends an application
@pytest.mark.parametrize("name", list(MUTATIONS))
@unmeasured()
def test_the_auditor_complains_when_the_product_has_a_defect(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of client or broker is seen within a bounded number of histories, for what it is."""
    mutation = MUTATIONS[name]
    if mutation.is_direct and not IS_COMPILED:
        pytest.skip("sessions are lent in the compiled module only")
    monkeypatch.setattr(sim_history, "SETTLE_LIMIT_MS", 15_000)  # enough for the seeds that are met here
    complaints: list[str] = []
    with mutation.applied():
        for seed in range(mutation.first_seed, mutation.first_seed + MAX_SEEDS):
            complaint = run_history(seed).complaint
            if complaint is not None and re.search(mutation.complaint, complaint):
                return
            if complaint is not None:
                complaints.append(complaint)
    pytest.fail(f"{MAX_SEEDS} histories and no word of it, but: {complaints}")
