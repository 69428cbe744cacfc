"""What a consumer's core has for the application: the mailbox between the two threads, and what passes it by.

Called by `turns.Turns` on the network thread. With an open window the application's side sees outcomes before the
mailbox has them, and is asked for the acknowledgements that were made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from uuid import UUID

from kafka_share.core.events import (
    AcknowledgementsGathered,
    BatchReclaimed,
    CompleteCommit,
    CompleteUnsubscribe,
    Deliver,
    Event,
    FinishClose,
    GatherAcknowledgements,
    Output,
    RaiseError,
    Reclaim,
    ReportOutcomes,
    TellClientInstanceId,
)
from kafka_share.network.mailbox import Mailbox

_FOR_THE_MAILBOX = (Deliver, ReportOutcomes, RaiseError, CompleteCommit, CompleteUnsubscribe, FinishClose)

Post = Callable[[Event], None]


class OpenWindow(Protocol):
    """The application's side where acknowledgements are made and answered between two polls."""

    def observe(self, outputs: Sequence[Output]) -> None: ...
    def hand_over(self, post: Callable[[AcknowledgementsGathered], None]) -> None: ...
    def ended(self) -> None: ...


class ConsumerPort:
    """An `ApplicationPort`. `window` is the application's side if it has an open window."""

    def __init__(self, mailbox: Mailbox, window: OpenWindow | None = None) -> None:
        self.client_instance_id: UUID | None = None
        """The id of this client in telemetry (KIP-714), once `has_instance_id` is set; None: it has none."""
        self.has_instance_id = threading.Event()
        self._mailbox = mailbox
        self._window = window
        self._taken: list[Output] = []
        self._take: dict[type, Callable[[Any, Post], None]] = {
            Reclaim: self._reclaim,
            GatherAcknowledgements: self._gather_acknowledgements,
            TellClientInstanceId: self._tell_client_instance_id,
            **dict.fromkeys(_FOR_THE_MAILBOX, self._keep),
        }

    def take(self, output: Output, post: Post) -> None:
        self._take[type(output)](output, post)

    def flush(self) -> None:
        if self._taken:
            outputs, self._taken = self._taken, []
            if self._window is not None:
                self._window.observe(outputs)
            self._mailbox.put_all(outputs)

    def failed(self, error: BaseException) -> None:
        self._mailbox.fail(error)

    def ended(self) -> None:
        self._mailbox.stop()
        if self._window is not None:
            self._window.ended()

    def _keep(self, output: Output, _: Post) -> None:
        self._taken.append(output)

    def _gather_acknowledgements(self, _: GatherAcknowledgements, post: Post) -> None:
        assert self._window is not None, "acknowledgements were announced without an open window"
        self._window.hand_over(post)

    def _reclaim(self, output: Reclaim, post: Post) -> None:
        self.flush()  # the batch may be among the outputs of this very round
        if self._mailbox.reclaim(output.batch_id):
            post(BatchReclaimed(output.batch_id))

    def _tell_client_instance_id(self, output: TellClientInstanceId, _: Post) -> None:
        self.client_instance_id = output.client_instance_id
        self.has_instance_id.set()
