"""Member ids: made by the client, in the one form that every broker takes."""

from __future__ import annotations

import random
import re
import uuid
from base64 import urlsafe_b64decode

import pytest

from kafka_share.core.member_id import new_member_id


@pytest.mark.better_than_java("url-safe-member-id")
def test_a_member_id_is_a_uuid_in_kafkas_own_text_form() -> None:
    """Member ids are version 4 UUIDs as 22 url-safe characters that never begin with "-"; Kafka 4.1 parses them."""
    source = random.Random(1)
    ids = [new_member_id(source) for _ in range(2_000)]
    assert len(set(ids)) == len(ids)
    for member_id in ids:
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", member_id)
        assert uuid.UUID(bytes=urlsafe_b64decode(member_id + "==")).version == 4
