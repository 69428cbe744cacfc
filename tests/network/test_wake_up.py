"""Waking a loop from another thread."""

from __future__ import annotations

import asyncio
import threading

from kafka_share.network.wake_up import WakeUp


def test_the_loop_hears_of_every_ring_and_of_many_at_once() -> None:
    loop = asyncio.SelectorEventLoop()
    heard: list[threading.Thread] = []

    def on_wake() -> None:
        heard.append(threading.current_thread())
        if len(heard) == 2:
            loop.stop()
        else:
            ringer.start()

    wake_up = WakeUp(loop, on_wake)

    def ring_often() -> None:
        for _ in range(20):
            wake_up.ring()

    ringer = threading.Thread(target=ring_often)
    try:
        wake_up.ring()
        loop.run_forever()
        ringer.join()
    finally:
        wake_up.close()
        loop.close()
    assert heard == [threading.current_thread()] * 2


def test_it_rings_in_vain_when_nobody_listens_any_more_or_yet() -> None:
    loop = asyncio.SelectorEventLoop()
    wake_up = WakeUp(loop, lambda: None)
    for _ in range(100_000):  # more than any buffer of a socket takes
        wake_up.ring()
    wake_up.close()
    wake_up.ring()
    loop.close()
