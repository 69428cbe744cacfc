"""What the network thread hands to the application of a consumer: outputs, wake-ups, and that the thread has died.

`turns.Turns` gives outputs to the `ConsumerPort`, which puts them into the `Mailbox`, except for those that pass it by;
one application thread takes them. `wakeup` may come from any thread. The application's side sees outcomes before the
mailbox has them, and is asked for the acknowledgements that were made between two polls.

An interrupt (Ctrl-C) may strike the application's thread at any instruction and loses nothing: `arrived` shows what is
there, and it stays until `drop` says that it has been dealt with. The mailbox holds no lock, so none is left behind:
what threads share are single operations of a deque and of dictionaries, and a wait acquires a lock that nobody needs.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from kafka_share.core.condition import Condition
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
    Recall,
    Reclaim,
    ReportOutcomes,
    TellClientInstanceId,
    TellCondition,
)
from kafka_share.core.metrics.measurements import Measurements
from kafka_share.errors import ConsumerClosedError, InternalError
from kafka_share.native import Ear
from kafka_share.network.direct import DirectSession
from kafka_share.network.futures import DoneCallbacks
from kafka_share.network.process import Origin

if TYPE_CHECKING:
    from kafka_share.native import PlainCalls

MAX_PENDING: Final = 100_000
"""Far more than a working core puts without being asked; beyond it the core is broken and the thread ends."""


class _Mail:
    """One output. Whose it is, is settled once and for all by the one who asks first."""

    __slots__ = ("_owner", "output")

    def __init__(self, output: Output) -> None:
        self.output = output
        self._owner: dict[None, object] = {}

    def is_for(self, side: object) -> bool:
        return self._owner.setdefault(None, side) is side


_is_recalled = attrgetter("is_recalled")

_APPLICATION: Final = object()
_CORE: Final = object()


class Mailbox:
    """A queue of outputs with a blocking end.

    `notify`, if given, is called after every change that could end a wait, on the thread that made it and without any
    lock held: an asyncio façade wakes its own loop there instead of blocking in `wait`. How long the oldest output has
    waited is recorded in `measurements`, by the clock `now_ms`.
    """

    def __init__(
        self,
        notify: Callable[[], None] | None = None,
        measurements: Measurements | None = None,
        now_ms: Callable[[], int] = int,
    ) -> None:
        self.condition: Condition = Condition()
        """What holds of the consumer now. Any thread may read it; the network thread puts a new one in its place."""
        self.direct: dict[int, DirectSession] = {}
        """What was lent to the thread that polls, by the number of the loan; perhaps returned since."""
        self._ear: Ear | None = None
        self._bell = threading.Lock()
        """Free while there may be news: who waits for news waits for this lock, and never gives it back."""
        self._bell.acquire()
        self.pending: deque[_Mail] = deque()
        """What nobody has dropped or taken back yet."""
        self.is_interrupted: bool = False
        """The present wait, or the next one, ends at once."""
        self.is_woken: bool = False
        """`wakeup` was called, and no `consume_wakeup` has told of it."""
        self.is_stopped: bool = False
        """Whether nothing more will be put in."""
        self.failure: BaseException | None = None
        """What the network thread has died of."""
        self._origin = Origin()
        self._notify = notify
        self._measurements = Measurements() if measurements is None else measurements
        self._measurements.mail_waiting = lambda: len(self.pending)
        self._now_ms = now_ms
        self._waiting_since_ms = 0

    # ---- the application's end

    def wait(self, timeout_ms: int, *, with_records: bool = True) -> None:
        """Wait until there is something to take, up to `timeout_ms`. Without `with_records` a `Deliver` is no news.

        A wait ends early once for `wakeup` or `interrupt`, with nothing perhaps. So ask `consume_wakeup` before the
        first wait of a call and after each. Raises `ConsumerClosedError` if nothing is there and nothing will come, and
        what `arrived` raises.
        """
        self._origin.demand()
        if self.has_news(with_records=with_records):
            self.end_wait(with_records=with_records)
            return
        ends_at = time.monotonic() + timeout_ms / 1000
        left = timeout_ms / 1000
        while left > 0 and self._bell.acquire(timeout=min(left, threading.TIMEOUT_MAX)):
            if self.has_news(with_records=with_records):
                break
            left = ends_at - time.monotonic()
        self.end_wait(with_records=with_records)

    def wait_on(self, lent: Sequence[DirectSession], timeout_ms: int, *, with_records: bool) -> None:
        """Wait for an answer on the connections that were lent, too; it may end early, with nothing."""
        self._origin.demand()
        self.hear([direct.line for direct in lent], timeout_ms, lambda: self.has_direct_news(lent, with_records))
        self.end_wait(with_records=with_records)

    def hear(self, lines: list[Any], timeout_ms: int, has_news: PlainCalls | Callable[[], bool]) -> None:
        """The same for sockets (`DirectLine`s), until `has_news` says that there is some; it changes nothing."""
        if self._ear is None:
            bell, hearing = socket.socketpair()
            self._ear = Ear(bell.detach(), hearing.detach())
        self._ear.wait(lines, timeout_ms, has_news)

    def has_direct_news(self, lent: Sequence[DirectSession], with_records: bool) -> bool:
        """Whether a wait for an answer on these would end at once, not knowing of the answers."""
        return self.has_news(with_records=with_records) or any(map(_is_recalled, lent))

    def close(self) -> None:
        """Nobody waits any more."""
        if self._ear is not None:
            self._ear.close()

    def end_wait(self, *, with_records: bool) -> None:
        """The end of a wait, for those who wait otherwise, until `has_news`. Raises as `wait` does."""
        self._raise_failure()
        self.is_interrupted = False
        if self.is_stopped and not self._has_mail(with_records=with_records):
            raise ConsumerClosedError("The network thread has ended; nothing more will arrive.")

    def has_news(self, *, with_records: bool) -> bool:
        """Whether a wait would end at once."""
        if self.is_interrupted or self.is_stopped or self.failure is not None:
            return True
        return bool(self.pending) and self._has_mail(with_records=with_records)

    def _has_mail(self, *, with_records: bool) -> bool:
        if with_records:
            return bool(self.pending)
        return any(not isinstance(mail.output, Deliver) for mail in self.pending.copy())

    def arrived(self, *, with_records: bool = True, one_batch: bool = False) -> list[Output]:
        """What is there. Each output stays, and is shown again, until it is dropped.

        Only a poll takes records. Without `with_records` each `Deliver` is left out, with `one_batch` each but the
        first, so that it can be taken back if no poll comes in time.

        Raises `InternalError` if the network thread has died, now and ever after; `IllegalStateError` in a process
        forked from the one that made the mailbox.
        """
        self._origin.demand()
        self._raise_failure()
        if not self.pending:
            return []
        outputs: list[Output] = []
        for mail in self.pending.copy():
            is_batch = isinstance(mail.output, Deliver)
            if (with_records or not is_batch) and mail.is_for(_APPLICATION):
                outputs.append(mail.output)
                with_records = with_records and not (is_batch and one_batch)
        if outputs:
            now_ms = self._now_ms()
            self._measurements.mail_waits.record(now_ms - self._waiting_since_ms, now_ms)
        return outputs

    def drop(self, output: Output) -> None:
        """The application has dealt with this output. What has been dropped before, or taken back, is no error."""
        for mail in self.pending.copy():
            if mail.output is output:
                try:
                    self.pending.remove(mail)
                except ValueError:
                    pass  # taken back in this moment
                return

    def take(self, timeout_ms: int, *, with_records: bool = True) -> list[Output]:
        """`wait`, then all that has `arrived`, dropped at once; for those whom no interrupt has to spare."""
        if timeout_ms > 0:
            self.wait(timeout_ms, with_records=with_records)
        outputs = self.arrived(with_records=with_records)
        for output in outputs:
            self.drop(output)
        return outputs

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise InternalError(f"the network thread died: {self.failure!r}") from self.failure

    def consume_wakeup(self) -> bool:
        """Was `wakeup` called since this last returned True? Several calls count as one."""
        if not self.is_woken:
            return False
        self.is_woken = self.is_interrupted = False
        return True

    # ---- any thread

    def interrupt(self) -> None:
        """End the present or the next wait, and nothing else: there is something to look at. Any thread may call it."""
        self.is_interrupted = True
        self.ring()

    def wakeup(self) -> None:
        """End the present or the next wait, and set the flag of `consume_wakeup`. Any thread may call it."""
        self.is_woken = self.is_interrupted = True
        self.ring()

    # ---- the network thread's end

    def put(self, output: Output) -> None:
        """Add one output and end a wait."""
        self.put_all((output,))

    def put_all(self, outputs: Iterable[Output]) -> None:
        """Add outputs that belong together: one wait takes them all."""
        if not self.pending:
            self._waiting_since_ms = self._now_ms()
        self.pending.extend(map(_Mail, outputs))
        assert len(self.pending) <= MAX_PENDING, "the application is handed more than it can ever have asked for"
        self.ring()

    def reclaim(self, batch_id: int) -> bool:
        """Take the `Deliver` of this batch back; False if the application has seen it."""
        for mail in self.pending.copy():
            output = mail.output
            if isinstance(output, Deliver) and output.batch.batch_id == batch_id and mail.is_for(_CORE):
                self.pending.remove(mail)
                return True
        return False

    def fail(self, exception: BaseException) -> None:
        """The network thread died of this: every `arrived` raises from now on. The first cause is kept."""
        self.failure = self.failure or exception
        self.ring()

    def stop(self) -> None:
        """The network thread has ended as it should: what is pending can be taken, no wait will block again."""
        self.is_stopped = True
        self.condition = Condition()
        self.ring()

    def ring(self) -> None:
        """End a wait, perhaps with nothing new."""
        try:
            self._bell.release()
        except RuntimeError:
            pass  # it rings already
        if self._ear is not None:
            self._ear.ring()
        if self._notify is not None:
            self._notify()


# ---- the way into it

_FOR_THE_MAILBOX = frozenset((Deliver, ReportOutcomes, RaiseError, CompleteCommit, CompleteUnsubscribe, FinishClose))

Post = Callable[[Event], None]


class Application(Protocol):
    """The application's side where acknowledgements are made and answered between two polls."""

    def tell_outcomes(self, outputs: Sequence[Output]) -> None: ...
    def post_acknowledgements(self, post: Callable[[AcknowledgementsGathered], None]) -> None: ...
    def ended(self) -> None: ...


class ConsumerPort:
    """An `ApplicationPort`. `application` is the application's side, if it is asked and told between two polls."""

    def __init__(
        self, mailbox: Mailbox, application: Application | None = None, callbacks: DoneCallbacks | None = None
    ) -> None:
        self.client_instance_id: UUID | None = None
        """The id of this client in telemetry (KIP-714), once `has_instance_id` is set; None: it has none."""
        self.has_instance_id: threading.Event = threading.Event()
        self._mailbox = mailbox
        self._application = application
        self._callbacks = callbacks
        self._taken: list[Output] = []
        self._take: dict[type, Callable[[Any, Post], None]] = {
            Reclaim: self._reclaim,
            GatherAcknowledgements: self._gather_acknowledgements,
            TellClientInstanceId: self._tell_client_instance_id,
            TellCondition: self._tell_condition,
            DirectSession: self._lend,
            Recall: self._recall,
        }

    def take(self, output: Output, post: Post) -> None:
        kind = type(output)
        if kind in _FOR_THE_MAILBOX:
            self._taken.append(output)
        else:
            self._take[kind](output, post)

    def flush(self) -> None:
        if self._taken:
            outputs, self._taken = self._taken, []
            if self._application is not None:
                self._application.tell_outcomes(outputs)
            self._mailbox.put_all(outputs)

    def failed(self, error: BaseException) -> None:
        self._mailbox.fail(error)

    def ended(self) -> None:
        self._mailbox.stop()
        if self._application is not None:
            self._application.ended()
        if self._callbacks is not None:
            self._callbacks.end()

    def _gather_acknowledgements(self, _: GatherAcknowledgements, post: Post) -> None:
        assert self._application is not None, "acknowledgements are asked for, and nobody has them"
        self._application.post_acknowledgements(post)

    def _reclaim(self, output: Reclaim, post: Post) -> None:
        self.flush()  # the batch may be among the outputs of this very round
        if self._mailbox.reclaim(output.batch_id):
            post(BatchReclaimed(output.batch_id))

    def _tell_client_instance_id(self, output: TellClientInstanceId, _: Post) -> None:
        self.client_instance_id = output.client_instance_id
        self.has_instance_id.set()

    def _lend(self, direct: DirectSession, _: Post) -> None:
        self._mailbox.direct[direct.lend_id] = direct

    def _recall(self, _: Recall, __: Post) -> None:
        self._mailbox.ring()

    def _tell_condition(self, output: TellCondition, _: Post) -> None:
        self._mailbox.condition = output.condition
