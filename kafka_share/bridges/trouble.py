"""What a poll of a bridge has raised: logged once, until there are records again.

The library that a bridge serves asks again and again, so it must not hear of what passes.
"""

from __future__ import annotations

from kafka_share.bridges.held import log
from kafka_share.errors import KafkaShareError
from kafka_share.handling.leasing import Leasing
from kafka_share.harmless import excerpt


class Trouble:
    def __init__(self) -> None:
        self._text = ""

    def met(self, consumer: Leasing, error: KafkaShareError) -> None:
        """A poll of this consumer has raised. Raises it again if it lasts until a new consumer is made."""
        if consumer.is_final(error):
            raise error
        text, before, self._text = excerpt(str(error)), self._text, excerpt(str(error))
        if text != before:
            log.warning("%s", text)

    def is_over(self) -> None:
        """There are records."""
        self._text = ""
