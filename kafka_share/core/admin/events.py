"""What goes into the admin core and what comes out of it, beside the events and outputs of the network.

The façades' side (`kafka_share.network.admin_calls`) makes the commands and takes the outputs; `machine.AdminCore` has
the rest of its contract in common with the consumer's core (`kafka_share.core.events`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from kafka_share.core.events import CloseRequested, ConnectionLost, FinishClose, RequestFailed, ResponseReceived, Send
from kafka_share.errors import KafkaShareError

if TYPE_CHECKING:
    from kafka_share.core.admin.conversation import Operation


@attrs.frozen
class CallStarted:
    """Run this operation; `CompleteCall` follows, at the latest after `timeout_ms`."""

    call_id: int
    operation: Operation[Any]
    timeout_ms: int


@attrs.frozen
class CallCancelled:
    """Nobody waits for this call any more; it gets no `CompleteCall`."""

    call_id: int


@attrs.frozen
class CompleteCall:
    """The call has ended: with `error`, or else with `value`."""

    call_id: int
    value: Any
    error: KafkaShareError | None


AdminCommand: TypeAlias = CallStarted | CallCancelled | CloseRequested
AdminEvent: TypeAlias = AdminCommand | ResponseReceived | RequestFailed | ConnectionLost
AdminOutput: TypeAlias = Send | CompleteCall | FinishClose
