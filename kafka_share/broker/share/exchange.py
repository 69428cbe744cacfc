"""What goes into the share half of a node and what comes out, as values.

The contract between `ShareNode` and the handlers of ShareFetch and ShareAcknowledge, which alone know the messages.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka_share.broker.events import RequestContext
    from kafka_share.broker.refusals import Refusal
    from kafka_share.broker.share.sessions import PartitionKey, SessionKey
    from kafka_share.protocol.share_values import AcquiredRange
    from kafka_share.records import AcknowledgeType


class AcquireMode(enum.IntEnum):
    """ShareAcquireMode on the wire."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class AcknowledgementBatch(NamedTuple):
    """Offsets with one type for all (`types` has one entry) or one type each."""

    first: int
    last: int
    types: tuple[int, ...]

    def type_of(self, offset: int) -> int:
        return self.types[0] if len(self.types) == 1 else self.types[offset - self.first]


Acknowledgements: TypeAlias = "Mapping[PartitionKey, Sequence[AcknowledgementBatch]]"


@attrs.frozen(kw_only=True)
class ShareAcknowledge:
    """The half of a request that acknowledges. `epoch` is that of the share session."""

    context: RequestContext
    """Whose request it is, and where its answer goes."""
    owner: SessionKey
    epoch: int
    batches: Acknowledgements
    """By partition; a partition that the request only names has none."""
    is_renewal: bool
    highest_type: AcknowledgeType
    """The request's version has no types above this one."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is acknowledged in any partition."""
        return not any(self.batches.values())


@attrs.frozen(kw_only=True)
class ShareFetch:
    """A ShareFetch, with what it acknowledges on the way."""

    acknowledge: ShareAcknowledge
    named: Sequence[PartitionKey]
    """In the order of the request; may hold one twice."""
    forgotten: Sequence[PartitionKey]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    acquire_mode: int
    """May be a number that is no `AcquireMode`."""

    @property
    def context(self) -> RequestContext:
        return self.acknowledge.context

    @property
    def owner(self) -> SessionKey:
        return self.acknowledge.owner

    @property
    def epoch(self) -> int:
        return self.acknowledge.epoch


@attrs.frozen
class Outcome:
    """How something ended for one partition: an error code, 0 for none, and a text."""

    code: int = 0
    message: str | None = None

    @classmethod
    def of(cls, refusal: Refusal) -> Outcome:
        return cls(refusal.code, refusal.message)


SUCCESS: Final = Outcome()


@attrs.frozen
class FetchedData:
    """What a fetch found in one partition."""

    error_code: int = 0
    records: bytes = b""
    acquired: Sequence[AcquiredRange] = ()


NOTHING_FETCHED: Final = FetchedData()


@attrs.frozen
class FetchResult:
    """What became of a ShareFetch. With an `error_code` the request failed as a whole."""

    context: RequestContext
    error_code: int = 0
    lock_ms: int = 0
    fetched: Mapping[PartitionKey, FetchedData] = attrs.Factory(dict)
    acknowledged: Mapping[PartitionKey, Outcome] = attrs.Factory(dict)


class AcknowledgeResult(NamedTuple):
    """What became of a ShareAcknowledge. With an `error_code` the request failed as a whole."""

    context: RequestContext
    error_code: int
    lock_ms: int
    acknowledged: Mapping[PartitionKey, Outcome]


ShareResult: TypeAlias = FetchResult | AcknowledgeResult
