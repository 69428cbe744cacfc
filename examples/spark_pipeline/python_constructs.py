"""What a Python source file consists of: lines, and how often each construct of the language occurs.

`batches` runs `parse` for each record, on the executors. Nothing here knows Spark, and nothing of what it parses is
executed.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter

CONSTRUCTS: dict[str, str] = {
    "FunctionDef": "function",
    "AsyncFunctionDef": "async function",
    "ClassDef": "class",
    "Lambda": "lambda",
    "ListComp": "comprehension",
    "SetComp": "comprehension",
    "DictComp": "comprehension",
    "GeneratorExp": "generator expression",
    "Yield": "yield",
    "YieldFrom": "yield",
    "Await": "await",
    "With": "with",
    "AsyncWith": "async with",
    "Try": "try",
    "TryStar": "try",
    "Raise": "raise",
    "Assert": "assert",
    "Match": "match",
    "Import": "import",
    "ImportFrom": "import",
    "JoinedStr": "f-string",
    "NamedExpr": "assignment expression",
}
"""Class of `ast` -> what the construct is called here. By name: an older Python lacks some of the classes."""

Parsed = tuple[str | None, int, dict[str, int]]
"""Why the file does not parse (None: it does), its lines, construct -> number."""

PARSED_SCHEMA = "error string, lines int, constructs map<string,int>"
"""`Parsed` for Spark."""


def parse(source: bytes | None) -> Parsed:
    """Count the constructs of one file; a record without a value is no file."""
    if source is None:
        return "there is no value", 0, {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the style of the files
            tree = ast.parse(bytes(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # ValueError: null bytes, or no text. MemoryError: CPython found the nesting too deep.
        return f"{type(error).__name__}: {error}", 0, {}
    names = (CONSTRUCTS.get(type(node).__name__) for node in ast.walk(tree))
    return None, len(source.splitlines()), dict(Counter(name for name in names if name is not None))


def module_of(key: bytes | None) -> str:
    """The top-level module of a file by its path, which is the record's key: "json/decoder.py" belongs to json."""
    if not key:
        return "(no key)"
    first = bytes(key).decode("utf-8", "replace").lstrip("/").partition("/")[0]
    return first.removesuffix(".py") or "(no key)"
