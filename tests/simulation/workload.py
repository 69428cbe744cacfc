"""What applications do with their consumers: poll, work, acknowledge, commit, pause, leave and come back.

Drawn round by round from the client's own source. When the faults are over every application works quickly, accepts
what it gets, and so lets every record end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulation.client import SimulatedClient
from simulation.facade import Steps

from kafka_share.application.calls import Records
from kafka_share.errors import CallerError, DataError, KafkaShareError, OperationTimeoutError, WakeupError
from kafka_share.records import AcknowledgeType, ShareRecord

CLOSE_TIMEOUT_MS = 5_000
QUIET_POLL_MS = 500


def live(client: SimulatedClient) -> Steps[None]:
    """Subscribe, go round until told to close, close."""
    facade, profile = client.facade, client.profile
    facade.subscribe(frozenset(profile.topics))
    while not client.should_close:
        yield from _round(client)
        if (
            client.source.random() < profile.unsubscribe
            and not client.is_quiet
            and not facade.side.deliveries.unacknowledged
        ):
            client.trace.count("unsubscribed and came back")
            yield from facade.unsubscribe()
            yield from facade.sleep(client.source.randint(0, 1_000))
            facade.subscribe(frozenset(profile.topics))
    began_at_ms = client.driver.now_ms()
    yield from facade.close(CLOSE_TIMEOUT_MS)
    client.close_took_ms = client.driver.now_ms() - began_at_ms


def _round(client: SimulatedClient) -> Steps[None]:
    facade, profile, source = client.facade, client.profile, client.source
    timeout_ms = min(profile.poll_timeout_ms, QUIET_POLL_MS) if client.is_quiet else profile.poll_timeout_ms
    try:
        if profile.loops and not profile.window_records:
            yield from _loop(client, timeout_ms)
            yield from _commit(client)
            return
        records = yield from facade.poll(timeout_ms)
    except (WakeupError, DataError) as error:
        client.trace.count(f"poll raised {type(error).__name__}")
        return
    except CallerError:
        raise
    except KafkaShareError as error:
        client.trace.count(f"poll raised {type(error).__name__}")
        if client.held:  # open window: work goes on, whatever polls raise
            _acknowledge_some(client, ())
        yield from facade.sleep(20)
        return
    if not records and client.held:
        _acknowledge_some(client, ())
    if not records:
        yield from facade.sleep(source.randint(20, 150) if timeout_ms < 100 else source.randint(1, 20))
        return
    if not client.is_quiet:
        yield from facade.sleep(source.randint(0, profile.work_ms))
    yield from _acknowledge(client, records)
    yield from _commit(client)
    if profile.idle_ms and not client.is_quiet and source.random() < 0.3:
        yield from facade.sleep(source.randint(0, profile.idle_ms))


def _loop(client: SimulatedClient, timeout_ms: int) -> Steps[None]:
    """Work through one poll record by record, as a loop over the consumer does; now and then leave the loop."""
    facade, profile, source = client.facade, client.profile, client.source

    def work(record: ShareRecord[Any, Any]) -> Steps[bool]:
        if not client.is_quiet:
            yield from facade.sleep(source.randint(0, profile.work_ms // 5))
        if profile.explicit:
            _say(client, record, _chosen_type(client))
        return client.is_quiet or source.random() > profile.leave_open / 10

    if not (yield from facade.read(timeout_ms, work)):
        yield from facade.sleep(source.randint(20, 150))


def _acknowledge(client: SimulatedClient, records: Records) -> Steps[None]:
    if not client.profile.explicit:
        return
    if client.profile.window_records:
        _acknowledge_some(client, records)
        return
    left = len(records)
    if not client.is_quiet and client.source.random() < client.profile.leave_open:
        left = client.source.randint(0, len(records))
    for record in records[:left]:
        _say(client, record, _chosen_type(client))
    if left < len(records):
        yield from _commit(client)
        for record in records[left:]:
            client.facade.acknowledge(record, _chosen_type(client))


def _acknowledge_some(client: SimulatedClient, records: Sequence[ShareRecord[Any, Any]]) -> None:
    """Open window: some of what is held, in any order; a renewed record stays in hand."""
    held = client.held
    held.extend(records)
    client.source.shuffle(held)
    is_all = client.is_quiet or not (client.profile.leave_open or client.profile.work_ms)
    count = len(held) if is_all else client.source.randint(0, len(held))
    done, client.held = held[:count], held[count:]
    for record in done:
        kind = _chosen_type(client)
        _say(client, record, kind)
        if kind is AcknowledgeType.RENEW:
            client.held.append(record)


def _say(client: SimulatedClient, record: ShareRecord[Any, Any], kind: AcknowledgeType) -> None:
    """Acknowledge a record; some releases are to come later."""
    if kind is AcknowledgeType.RELEASE and client.source.random() < 0.4:
        client.trace.count("release with a delay")
        client.facade.release(record, client.source.choice((10, 500, 4_000)))
    else:
        client.facade.acknowledge(record, kind)


def _chosen_type(client: SimulatedClient) -> AcknowledgeType:
    if client.is_quiet:
        return AcknowledgeType.ACCEPT
    profile, roll = client.profile, client.source.random()
    for part, kind in (
        (profile.release, AcknowledgeType.RELEASE),
        (profile.reject, AcknowledgeType.REJECT),
        (profile.renew, AcknowledgeType.RENEW),
    ):
        if roll < part:
            return kind
        roll -= part
    return AcknowledgeType.ACCEPT


def _commit(client: SimulatedClient) -> Steps[None]:
    facade, profile, source = client.facade, client.profile, client.source
    if source.random() < profile.commit_async:
        facade.commit_async()
    if source.random() < profile.commit_sync:
        try:
            yield from facade.commit_sync(source.choice((0, 100, 2_000)))
        except (OperationTimeoutError, WakeupError) as error:
            client.trace.count(f"commit_sync raised {type(error).__name__}")
