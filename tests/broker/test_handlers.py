"""Each file of handlers says at its head which APIs it answers, in which versions."""

from __future__ import annotations

import inspect
from collections import defaultdict

from kafka_share.broker.handlers.handler_table import HANDLERS, not_served
from kafka_share.broker.kafka_version import BEHAVIOURS, advertised_versions


def test_each_file_of_handlers_states_the_versions_of_kafka_4_3_at_its_head() -> None:
    offered = advertised_versions(with_client_metrics=True)
    stated = defaultdict(list)
    for key, handler in HANDLERS.items():
        low, high = offered[key]
        versions = f"{low} to {high}" if low != high else f"{low}"
        stated[inspect.getmodule(handler)].append(f"{key.label} ({int(key)}) {versions}")
    for module, apis in stated.items():
        head = " ".join((inspect.getdoc(module) or "").split())
        assert head.endswith(f"Versions: {', '.join(apis)}."), module


def test_what_is_offered_has_a_handler_in_every_version_of_kafka() -> None:
    for behaviour in BEHAVIOURS.values():
        offered = advertised_versions(behaviour, with_client_metrics=True)
        assert offered.keys() == HANDLERS.keys()
        assert not offered.keys() & not_served().keys()
