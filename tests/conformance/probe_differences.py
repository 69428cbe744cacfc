"""Where the reference broker is known to answer the probes unlike Kafka: version -> step -> reason.

Used by the probe tests, which fail for a difference that is not here and for one that is here and gone, and by
`test_probe_page`, which holds docs/conformance-probes.md to it. A reason is a sentence for that page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_APIS: Final = "It offers fewer APIs, and none in a version that our schemas do not have."
_SOONER: Final = (
    "It initialises share partitions before the next heartbeat; Kafka needs some milliseconds, and a heartbeat sent "
    "at once finds that under way, gets an epoch of its own, and the partitions only with the next."
)
_EPOCH_LESS: Final = "Follows from `hb_epochs | changes`: one epoch less has passed."


def _hb_epochs(*steps: str) -> dict[str, str]:
    return {f"hb_epochs | {step}": _EPOCH_LESS for step in steps}


_EPOCHS: Final = {
    "hb_epochs | changes": _SOONER,
    **_hb_epochs(
        "same epoch, null names",
        "same epoch, full",
        "previous epoch",
        "previous-1",
        "describe",
        "describe (2)",
        "describe (3)",
        "empty list",
        "next",
    ),
}

WIRE_DIFFERENCES: Final[Mapping[str, Mapping[str, str]]] = {
    "4.1": {
        "versions | keys": _APIS,
        "hb_basic | join again epoch 0": _SOONER,
        "hb_basic | after 1.5 s: epoch 0 rejoin": "Follows from `hb_basic | join again epoch 0`: an epoch more has "
        "passed, so that 0 is not the previous one any more.",
        **_EPOCHS,
    },
    "4.2": {
        "versions | keys": _APIS,
        **_EPOCHS,
        **_hb_epochs("epoch 0 of a member"),
    },
    "4.3": {"versions | keys": _APIS},
    "4.4": {"versions | keys": _APIS},
}

CLIENT_DIFFERENCES: Final[Mapping[str, Mapping[str, str]]] = {
    "4.1": {},
    "4.2": {},
    "4.3": {},
    "4.4": {},
}
