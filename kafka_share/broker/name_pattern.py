"""The regular expressions of clients, in RE2's syntax, matched against whole names.

By these members of consumer groups subscribe to topics, and admins list transactional ids. A pattern comes from a
client, so none may take long: RE2 needs a time that grows with the length of the name only, where Python's `re` can
take years. Kafka has the same in Java, RE2/J.
"""

from __future__ import annotations

from typing import Final

MAX_MEMORY_BYTES: Final = 1 << 20
"""Of one compiled pattern and its matching; one that needs more is refused, or matches nothing."""


class PatternError(ValueError):
    """The text is no regular expression, or there is nothing to read it with."""


class NamePattern:
    """A compiled pattern. Raises `PatternError`, also without google-re2."""

    def __init__(self, pattern: str) -> None:
        try:
            import re2
        except ModuleNotFoundError:
            raise PatternError("this broker has no google-re2: install kafka-share[broker-patterns]") from None
        options = re2.Options()
        options.log_errors = False
        options.max_mem = MAX_MEMORY_BYTES
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as error:
            reason = error.args[0]
            raise PatternError(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason) from None

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        return self._compiled.fullmatch(name) is not None
