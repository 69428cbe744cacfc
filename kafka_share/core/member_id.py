"""Member ids: a random UUID in Kafka's own text form, made once per consumer (KIP-1082)."""

from __future__ import annotations

import base64
import random
import uuid


def new_member_id(source: random.Random) -> str:
    """A version 4 UUID as 22 characters of url-safe base64 without padding.

    The only form that every broker takes: 4.1 parses the id of each ShareFetch as a Kafka Uuid, in which `+` and `/`
    are errors. Kafka avoids a leading "-", which would look like an option on a command line.
    """
    while True:
        value = uuid.UUID(int=source.getrandbits(128), version=4)
        text = base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
