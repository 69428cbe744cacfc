"""Runs plain handlers in processes. Each thread of a `ThreadDriver` waits for the call that it has given to a process.

A process that dies is a failure of its call, `HandlerProcessError`, which the policy treats like any other; the next
call gets a new process. A call that is cancelled is told to the process, which ends itself if the handler goes on.
"""

from __future__ import annotations

import pickle
import threading

from kafka_share.errors import ConfigurationError, HandlerProcessError
from kafka_share.handling.child import NOT_AWAITED, RETURNED
from kafka_share.handling.job import Call
from kafka_share.handling.lease import Lease
from kafka_share.handling.plan import Plan
from kafka_share.handling.process_pool import HandlerProcess, ProcessPool
from kafka_share.handling.threads import ThreadDriver


class ProcessDriver(ThreadDriver):
    """Runs one worker once, with handlers in processes."""

    def __init__(self, plan: Plan) -> None:
        """Raises `ConfigurationError` for a handler that another process cannot import."""
        super().__init__(plan)
        self._pool = ProcessPool(plan.handler, takes_lease=plan.takes_lease)
        try:
            pickle.dumps(plan.handler)
        except Exception as error:  # noqa: BLE001 - pickle raises what it likes
            raise ConfigurationError(
                f"{plan.handler_name} cannot run in processes, which import it by its name: define it at the top level "
                f"of a module ({error})"
            ) from None
        self._busy: dict[Call, HandlerProcess] = {}
        """Who has which call."""
        self._busy_lock = threading.Lock()
        """Held while `_busy` changes, or a process is told. Who has it takes no other lock."""

    def run(self) -> None:
        """Raises `HandlerProcessError` before the group is joined if a process cannot begin."""
        try:
            self._pool.give_back(self._pool.take())
            super().run()
        finally:
            self._pool.close()

    def _call(self, call: Call, lease: Lease) -> BaseException | None:
        try:
            request = pickle.dumps((self._argument(call), call.tries))
            process = self._pool.take()
        except Exception as error:  # noqa: BLE001 - it decides about the records
            return error
        with self._busy_lock:
            self._busy[call] = process
        try:
            answer = b"" if lease.ended.is_set() else process.call(request)
        except HandlerProcessError as error:
            self._let_go(call)
            self._pool.discard(process)
            return error
        self._let_go(call)
        self._pool.give_back(process)
        return self._result(answer) if answer else HandlerProcessError(f"it was not called: {lease.reason}")

    def _let_go(self, call: Call) -> None:
        """From here on nobody tells a process that this call has to end."""
        with self._busy_lock:
            del self._busy[call]

    def _result(self, answer: bytes) -> BaseException | None:
        if answer == RETURNED:
            return None
        if answer == NOT_AWAITED:
            return self._not_awaited()
        try:
            error: BaseException = pickle.loads(answer[1:])
        except Exception as mistake:  # noqa: BLE001 - of a class that is not here
            return mistake
        return error

    def _cancel(self, call: Call, reason: str) -> None:
        with self._busy_lock:
            process = self._busy.get(call)
            if process is not None:  # else its thread sees that the lease has ended
                process.tell_end(reason)

    def _end_handlers(self) -> None:
        """The calls that go on die with their processes: their records are released before the consumer closes."""
        self._pool.close()
        self._end_threads(waits=True)
