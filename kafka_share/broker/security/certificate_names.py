"""The name in a client's certificate, as Kafka writes it: "User:CN=worker,O=shop" (RFC 2253, the last part first).

`connection.py` asks with what `ssl` says about the certificate, which has been verified by then.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kafka_share.broker.events import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHORT: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
"""What `ssl` calls an attribute -> its keyword in RFC 2253; another attribute keeps its long name."""
_ESCAPED: Final = re.compile(r'[,+"\\<>;]|^[ #]| $')


def principal_of(certificate: Mapping[str, Any] | None) -> str:
    """The principal of a client with this certificate, as `SSLSocket.getpeercert` gives it; without one anonymous."""
    if not certificate:
        return ANONYMOUS
    parts = [
        "+".join(f"{_SHORT.get(key, key)}={_escaped(value)}" for key, value in rdn) for rdn in certificate["subject"]
    ]
    return f"User:{','.join(reversed(parts))}"


def _escaped(value: str) -> str:
    return _ESCAPED.sub(lambda found: f"\\{found[0]}", value)
