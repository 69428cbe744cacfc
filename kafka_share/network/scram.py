"""What we demand of a SCRAM server beyond what kafka-python's mechanism checks.

Called by `sasl.SaslClient` with each message of the server before the mechanism sees it. Whoever stands between us and
the broker could otherwise have a proof made that is cheap to search for the password (RFC 5802, RFC 7677).
"""

from __future__ import annotations

from typing import Final

from kafka_share.errors import AuthenticationError
from kafka_share.harmless import excerpt

MIN_ITERATIONS: Final = 4_096
"""RFC 7677, section 4; Java's client refuses fewer, too."""


def check_server_message(data: bytes, client_first: bytes) -> None:
    """Raises `AuthenticationError` for an error of the server, too few iterations, and a nonce that adds nothing.

    `client_first` is our first message. What cannot be parsed is left to the mechanism.
    """
    fields = _fields(data)
    if "e" in fields:
        raise AuthenticationError(f"the broker ended the SCRAM exchange with the error {excerpt(fields['e'])!r}")
    if "r" in fields and fields["r"] == _fields(client_first).get("r"):
        raise AuthenticationError("the broker's SCRAM nonce adds nothing to ours: this is not a broker to be trusted")
    iterations = fields.get("i", "")
    if iterations.isdecimal() and len(iterations) < 10 and int(iterations) < MIN_ITERATIONS:
        raise AuthenticationError(
            f"the broker asks for {int(iterations)} SCRAM iterations, and fewer than {MIN_ITERATIONS} do not protect "
            f"the password: set the user's credentials anew, with {MIN_ITERATIONS} or more"
        )


def _fields(message: bytes) -> dict[str, str]:
    text = message.decode("utf-8", "replace").removeprefix("n,,")
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)
