"""Where the reference broker is known to answer the probes unlike Kafka: version -> step -> reason.

Used by the probe tests, which fail for a difference that is not here and for one that is here and gone, and by
`test_probe_page`, which holds docs/conformance-probes.md to it. A reason is a sentence for that page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_APIS: Final = "It offers fewer APIs, and none in a version that our schemas do not have."
WIRE_DIFFERENCES: Final[Mapping[str, Mapping[str, str]]] = {
    "4.1": {"versions | keys": _APIS},
    "4.2": {"versions | keys": _APIS},
    "4.3": {"versions | keys": _APIS},
    "4.4": {"versions | keys": _APIS},
}

CLIENT_DIFFERENCES: Final[Mapping[str, Mapping[str, str]]] = {
    "4.1": {},
    "4.2": {},
    "4.3": {},
    "4.4": {},
}
