"""The lines that the two probes print, made comparable: named by their step, and without the brokers' own words.

Called by `probe_runs`. The reference files in `probes/` went through `wire_line` and `client_line` when they were made:
they hold what Apache Kafka answered, but none of its texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

_IN_BRACES = re.compile(r"\{.*?\}")
_MESSAGE_FIELD = re.compile(r"(?:errorMessage|msg)='.*?'(?=[,)])")
_EXCEPTION = re.compile(r"\w+(?:Exception|Error)\(")
_NAMED_MESSAGE = re.compile(r"msg=[^)]*")


def wire_line(line: str) -> str:
    """A line of WireProbe without error texts; that there was one stays to be seen in the state lines."""
    return _MESSAGE_FIELD.sub("msg=text", _IN_BRACES.sub("", line)).rstrip()


def client_line(line: str) -> str:
    """A line of ClientProbe with the classes of exceptions, but not what they say."""
    kept, rest = "", line.rstrip()
    while (found := _EXCEPTION.search(rest)) is not None:
        kept += rest[: found.end()] + ")"
        rest = rest[_closing(rest, found.end()) + 1 :]
    return _NAMED_MESSAGE.sub("msg=text", kept + rest).rstrip()


def _closing(text: str, start: int) -> int:
    """The index of the parenthesis that closes the one before `start`."""
    depth = 1
    for index in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return len(text)


def wire_step(line: str) -> str:
    """`scenario | step` of a line of WireProbe."""
    return " | ".join(line.split(" | ")[:2]).rstrip()


def client_step(line: str) -> str:
    """The scenario of a line of ClientProbe, with what it was given."""
    return line.split(": ", maxsplit=1)[0]


def by_step(lines: Iterable[str], clean: Callable[[str], str], step_of: Callable[[str], str]) -> Mapping[str, str]:
    """Step -> cleaned line. A step that comes again is numbered: `scenario | step (2)`.

    Comments are left out, and so are the scenarios x_…, which need brokers of their own.
    """
    found: dict[str, str] = {}
    times: dict[str, int] = {}
    for line in lines:
        text = clean(line)
        if not text or text.startswith(("#", "x_")):
            continue
        step = step_of(text)
        times[step] = times.get(step, 0) + 1
        found[step if times[step] == 1 else f"{step} ({times[step]})"] = text
    return found
