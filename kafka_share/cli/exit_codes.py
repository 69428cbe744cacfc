"""What the command-line tools end with, for scripts; and the old habit of Apache's tools.

Every tool of the package uses these numbers. `--apache-exit-codes` chooses `APACHE`, for scripts that were written for
Kafka's own tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

APACHE_OPTION: Final = "--apache-exit-codes"
"""The flag of the tools that have an Apache model."""


@attrs.frozen(kw_only=True)
class ExitCodes:
    """A number per way to end."""

    ok: int = 0
    failed: int = 1
    """The operation, or a part of it, failed."""
    usage: int = 2
    """An option is wrong or missing; nothing was done."""
    help: int = 0
    """The help text was asked for."""
    interrupted: int = 130
    """By Ctrl-C."""


OURS: Final = ExitCodes()
APACHE: Final = ExitCodes(failed=0, usage=1, help=1)
"""As Kafka's shell tools end: an error that was printed is no reason not to exit 0, and help is like a wrong option."""


def chosen_exit_codes(arguments: Sequence[str]) -> ExitCodes:
    """By the arguments of a command line, which need not be valid: a wrong option ends the habit's way, too."""
    return APACHE if APACHE_OPTION in arguments else OURS
