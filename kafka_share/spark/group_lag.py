"""GroupLag: looks now and then how many records the group still has to finish, for those who watch a query.

The lease agent runs it on a daemon thread, with an admin client of its own. A cluster that does not answer, or does not
tell, costs nothing but the number.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import ShareGroupOffsets, SharePartitionOffset
from kafka_share.config import ShareAdminConfig
from kafka_share.errors import KafkaShareError

log: logging.Logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 5.0


class GroupLag:
    """`settings` are those of the consumer; `tell` gets the lag, or None when it is not known."""

    def __init__(self, settings: Mapping[str, Any], topics: Iterable[str], tell: Callable[[int | None], None]) -> None:
        known = {field.name for field in attrs.fields(ShareAdminConfig)}
        self._settings = {name: value for name, value in settings.items() if name in known}
        self._group = settings["group_id"]
        self._topics = frozenset(topics)
        self._tell = tell
        self._has_failed = False

    def start(self) -> None:
        """Look from now on, until the process ends."""
        threading.Thread(target=self._run, name="group-lag", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                with KafkaShareAdmin(**self._settings) as admin:
                    while True:
                        self._look(admin)
                        time.sleep(LOOK_EVERY_S)
            except KafkaShareError as error:
                self._failed(error)
            time.sleep(LOOK_EVERY_S)

    def _look(self, admin: KafkaShareAdmin) -> None:
        offsets = admin.list_share_group_offsets({self._group: None})[self._group]
        if isinstance(offsets, KafkaShareError):
            raise offsets
        self._has_failed = False
        self._tell(lag_of(offsets, self._topics))

    def _failed(self, error: KafkaShareError) -> None:
        self._tell(None)
        if not self._has_failed:  # once, not for each look
            log.warning("the lag of the group is not known: %s", error)
        self._has_failed = True


def lag_of(offsets: ShareGroupOffsets, topics: frozenset[str]) -> int | None:
    """Of all partitions of these topics where it is known; None if there is none."""
    lags = [
        offset.lag
        for where, offset in offsets.items()
        if where.topic in topics and isinstance(offset, SharePartitionOffset) and offset.lag is not None
    ]
    return sum(lags) if lags else None
