"""The base classes of all messages: kafka-python's, seen through the types that the package relies on.

A message is created from keywords (`version=` is optional: it only fills in the defaults at once), its fields are
attributes, and structs inside it are classes inside its class. It is turned into bytes and back by
`kafka_share.protocol.messages` only; kafka-python's own `encode` and `decode` trust their input and are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from types import ModuleType

    class MessageStruct:
        """A struct: its fields are attributes.

        `unknown_tags` has the tagged fields that no schema knows, as {"_<tag>": bytes}, or None; they are encoded
        again. Two structs are equal if their known fields are.
        """

        unknown_tags: dict[str, bytes] | None

        @property
        def version(self) -> int | None:
            """The version that it was decoded from or made for."""

        def to_dict(self, meta: bool = False, json: bool = True) -> dict[str, Any]:
            """The fields as plain values; for logs and tests."""

    class ApiMessage(MessageStruct):
        """A request or response; subclasses name the package that has their schema."""

        def __init_subclass__(cls, *, load_json: ModuleType | None = None) -> None: ...

        API_KEY: ClassVar[int]
        valid_versions: ClassVar[tuple[int, int]]
        """The lowest and the highest version that the schema describes."""

        @classmethod
        def is_request(cls) -> bool: ...

        def expect_response(self) -> bool:
            """False for a Produce request with acks=0 only."""

else:
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.data_container import DataContainer as MessageStruct

__all__ = ["ApiMessage", "MessageStruct"]
