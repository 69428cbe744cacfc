"""The work that is done for each record: parse a Python source file and count what it defines.

Called by the demo's workers. Executes nothing of what it parses.
"""

from __future__ import annotations

import ast
import contextlib
import threading
import warnings
from collections.abc import Iterator

import attrs

from kafka_share.errors import KafkaShareError

_FILENAME_PREFIX = "<kafka-share demo> "

# Python 3.11 counts the depth of the tree under construction once for all threads: a garbage collection in one parse
# may let another thread start its own, and one of them ends with "SystemError: AST constructor recursion depth
# mismatch". The interpreter's own lock keeps parses from running in parallel anyway.
_one_parse_at_a_time = threading.Lock()


class UnparsableError(KafkaShareError):
    """The file is no Python source that this interpreter can parse. `reason` is the name of the parser's exception."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


@attrs.frozen
class Definitions:
    """How many definitions of each kind; nested ones count as well."""

    functions: int = 0
    async_functions: int = 0
    classes: int = 0

    def __add__(self, other: Definitions) -> Definitions:
        return Definitions(
            self.functions + other.functions,
            self.async_functions + other.async_functions,
            self.classes + other.classes,
        )


@contextlib.contextmanager
def quiet_parsing() -> Iterator[None]:
    """Silence the parser's warnings about the files' style, such as invalid escapes in a string.

    To be entered once around the whole run: the warning filters belong to the process, not to a thread.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=_FILENAME_PREFIX)
        yield


def count_definitions(name: str, source: bytes) -> Definitions:
    """Parse `source` and count. Raises `UnparsableError`; `name` appears in nothing but the parser's warnings."""
    try:
        with _one_parse_at_a_time:
            tree = ast.parse(source, filename=_FILENAME_PREFIX + name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # ValueError: null bytes, and UnicodeDecodeError below it. MemoryError: CPython found the nesting too deep.
        raise UnparsableError(type(error).__name__, str(error)) from None
    return _count(tree)


def _count(tree: ast.Module) -> Definitions:
    """Walk statements only: no definition hides inside an expression, and expressions are most of a tree."""
    functions = async_functions = classes = 0
    to_visit: list[ast.AST] = [tree]
    while to_visit:
        node = to_visit.pop()
        if isinstance(node, ast.FunctionDef):
            functions += 1
        elif isinstance(node, ast.AsyncFunctionDef):
            async_functions += 1
        elif isinstance(node, ast.ClassDef):
            classes += 1
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            children = getattr(node, field, None)
            if isinstance(children, list):  # a conditional expression and a lambda have a body that is no list
                to_visit.extend(children)
    return Definitions(functions, async_functions, classes)
