"""The regular expressions by which members of consumer groups subscribe, in RE2's syntax, matched against whole names.

Called by `ConsumerGroups`. A pattern comes from a client, so no pattern may take long: all ways through it are followed
at once, as bits of a number, instead of one after the other with backtracking (Python's `re` can take years). A name
that takes more than `MAX_STEPS` does not match.

What is understood: literals, `.`, classes such as `[a-z]`, `[^.]` and `[[:alpha:]]`, `\\d \\w \\s` and their opposites,
groups (named and `(?i:…)` too), `|`, `* + ? {n} {n,} {n,m}` (lazy ones are the same here), `^ $ \\A \\z`, `\\Q…\\E`.
As in RE2 there are no look-arounds and no back-references.
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[["_Run", int], int]
    """From the positions reached (a bit for each) to those reached after this piece of the pattern."""

MAX_STEPS: Final = 100_000
MAX_REPEATS: Final = 1_000
"""Of a counted repetition, as in RE2."""
MAX_DEPTH: Final = 100
"""Of groups in groups."""

_CLASSES: Final = {
    "d": string.digits,
    "s": "\t\n\f\r ",
    "w": string.ascii_letters + string.digits + "_",
}
_POSIX: Final = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "digit": string.digits,
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase,
    "punct": string.punctuation,
    "space": string.whitespace,
    "word": string.ascii_letters + string.digits + "_",
    "xdigit": string.hexdigits,
}
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_ALL: Final = frozenset(map(chr, range(128)))
"""Names of topics have nothing else."""
_COUNTS: Final = re.compile(r"\{(\d{1,6})(,(\d{0,6}))?\}")
_NAME: Final = re.compile(r"\?P?<\w+>")
_FLAGS: Final = re.compile(r"\?([imsU]*)(-[imsU]+)?([:)])")


class PatternError(ValueError):
    """The text is no regular expression."""


@attrs.define
class _Run:
    """One match in progress."""

    text: str
    steps: int = 0
    _places: dict[frozenset[str], int] = attrs.Factory(dict)

    def places_of(self, chars: frozenset[str]) -> int:
        """Where the text has one of these characters."""
        found = self._places.get(chars)
        if found is None:
            found = self._places[chars] = sum(1 << at for at, char in enumerate(self.text) if char in chars)
        return found


class TopicPattern:
    """A compiled pattern. Raises `PatternError`."""

    def __init__(self, pattern: str) -> None:
        parser = _Parser(pattern)
        self._step = parser.whole()

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        try:
            return bool(self._step(_Run(name), 1) >> len(name) & 1)
        except _TooLongError:
            return False


class _TooLongError(Exception):
    pass


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._ignores_case = False

    def whole(self) -> Step:
        step = self._alternatives()
        if self._at < len(self._text):
            raise PatternError("there is a closing parenthesis too many")
        return step

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        found = self._peek(text)
        self._at += len(text) if found else 0
        return found

    def _next(self, what: str) -> str:
        if self._at >= len(self._text):
            raise PatternError(f"{what} is missing at the end")
        self._at += 1
        return self._text[self._at - 1]

    def _alternatives(self) -> Step:
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else _either(branches)

    def _sequence(self) -> Step:
        steps: list[Step] = []
        while self._at < len(self._text) and not self._peek("|") and not self._peek(")"):
            if self._take("\\Q"):
                quoted, _, _ = self._text[self._at :].partition("\\E")
                self._at = min(self._at + len(quoted) + 2, len(self._text))
                if quoted:
                    steps += [self._chars(char) for char in quoted[:-1]]
                    steps.append(self._repeated(self._chars(quoted[-1])))
                continue
            step = self._piece()
            if step is not None:
                steps.append(self._repeated(step))
        return _one_after_the_other(steps)

    def _piece(self) -> Step | None:
        """One thing that can be repeated; None for flags, which match nothing."""
        char = self._next("something")
        if char == "(":
            return self._group()
        if char == "[":
            return _one_of(self._class())
        if char == ".":
            return _one_of(_ALL - {"\n"})
        if char == "^":
            return _at_start
        if char == "$":
            return _at_end
        if char in "*+?":
            raise PatternError(f"there is nothing before {char!r}")
        if char == "\\":
            return self._escape()
        return self._chars(char)

    def _chars(self, chars: str) -> Step:
        return _one_of(frozenset(chars.lower() + chars.upper() if self._ignores_case else chars))

    def _group(self) -> Step | None:
        outer = self._ignores_case
        if self._peek("?P<") or self._peek("?<"):
            named = _NAME.match(self._text, self._at)
            if named is None:
                raise PatternError("the name of a group is missing")
            self._at = named.end()
        elif self._peek("?"):
            flags = _FLAGS.match(self._text, self._at)
            if flags is None:
                raise PatternError("there is no such group")
            self._at = flags.end()
            self._ignores_case = ("i" in flags[1] or self._ignores_case) and "i" not in (flags[2] or "")
            if flags[3] == ")":
                return None
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise PatternError("it has too many groups in groups")
        step = self._alternatives()
        if not self._take(")"):
            raise PatternError("a closing parenthesis is missing")
        self._depth -= 1
        self._ignores_case = outer
        return step

    def _repeated(self, step: Step) -> Step:
        while self._at < len(self._text):
            counts = _COUNTS.match(self._text, self._at)
            if self._take("*"):
                least, most = 0, None
            elif self._take("+"):
                least, most = 1, None
            elif self._take("?"):
                least, most = 0, 1
            elif counts is not None:
                self._at = counts.end()
                least = int(counts[1])
                most = least if counts[2] is None else int(counts[3]) if counts[3] else None
                if least > MAX_REPEATS or (most is not None and not least <= most <= MAX_REPEATS):
                    raise PatternError(f"{counts[0]!r} cannot be counted")
            else:
                break
            self._take("?")  # a lazy repetition matches the same names
            if self._at < len(self._text) and self._text[self._at] in "*+?":
                raise PatternError("a repetition is repeated")
            step = _repeat(step, least, most)
        return step

    def _escape(self) -> Step:
        char = self._next("what is escaped")
        if char == "A":
            return _at_start
        if char == "z":
            return _at_end
        return _one_of(self._class_of_escape(char)) if char.lower() in _CLASSES else self._chars(self._escaped(char))

    def _class_of_escape(self, char: str) -> frozenset[str]:
        found = frozenset(_CLASSES[char.lower()])
        return _ALL - found if char.isupper() else found

    def _escaped(self, char: str) -> str:
        if char in _ESCAPED:
            return _ESCAPED[char]
        if char == "x":
            digits = re.compile(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\}").match(self._text, self._at)
            if digits is None:
                raise PatternError("\\x has no number")
            self._at = digits.end()
            return chr(min(int(digits[1] or digits[2], 16), 0x10FFFF))
        if char.isalnum():
            raise PatternError(f"\\{char} means nothing")
        return char

    def _class(self) -> frozenset[str]:
        opposite = self._take("^")
        found: set[str] = set()
        first = True
        while first or not self._peek("]"):
            first = False
            found |= self._class_member()
        self._at += 1
        if self._ignores_case:
            found |= {char.lower() for char in found} | {char.upper() for char in found}
        return _ALL - found if opposite else frozenset(found)

    def _class_member(self) -> frozenset[str]:
        if self._take("[:"):
            name, end, _ = self._text[self._at :].partition(":]")
            chars = frozenset(_POSIX.get(name.removeprefix("^"), ""))
            if not end or not chars:
                raise PatternError("there is no such class of characters")
            self._at += len(name) + 2
            return _ALL - chars if name.startswith("^") else chars
        low = self._next("a closing bracket")
        if low == "\\":
            low = self._next("what is escaped")
            if low.lower() in _CLASSES:
                return self._class_of_escape(low)
            low = self._escaped(low)
        if not self._peek("-") or self._peek("-]"):
            return frozenset(low)
        self._at += 1
        high = self._next("a closing bracket")
        if high == "\\":
            high = self._escaped(self._next("what is escaped"))
        if high < low:
            raise PatternError(f"the range {low}-{high} is the wrong way round")
        return frozenset(char for char in _ALL if low <= char <= high)


# ---- the steps


def _at_start(run: _Run, positions: int) -> int:
    return positions & 1


def _at_end(run: _Run, positions: int) -> int:
    return positions & (1 << len(run.text))


def _one_of(chars: frozenset[str]) -> Step:
    def step(run: _Run, positions: int) -> int:
        run.steps += 1
        if run.steps > MAX_STEPS:
            raise _TooLongError
        return (positions & run.places_of(chars)) << 1

    return step


def _either(branches: list[Step]) -> Step:
    def step(run: _Run, positions: int) -> int:
        found = 0
        for branch in branches:
            found |= branch(run, positions)
        return found

    return step


def _one_after_the_other(steps: list[Step]) -> Step:
    def step(run: _Run, positions: int) -> int:
        for one in steps:
            if not positions:
                break
            positions = one(run, positions)
        return positions

    return step


def _repeat(inner: Step, least: int, most: int | None) -> Step:
    def step(run: _Run, positions: int) -> int:
        for _ in range(least):
            run.steps += 1
            if not positions:
                return 0
            positions = inner(run, positions)
        found, new = positions, positions
        rounds = 0
        while new and (most is None or rounds < most - least):
            run.steps += 1
            if run.steps > MAX_STEPS:
                raise _TooLongError
            new = inner(run, new) & ~found
            found |= new
            rounds += 1
        return found

    return step
