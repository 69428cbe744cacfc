"""SaslHandshake (17) and SaslAuthenticate (36) where no authentication is under way: both are ILLEGAL_SASL_STATE.

What belongs to an authentication never gets here: `security/authentication.py` takes it. So these answers are for
listeners without SASL, and for a client that authenticates again where its session does not end.

Versions: SaslHandshake (17) 0 to 1, SaslAuthenticate (36) 0 to 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.errors import IllegalSaslStateError
from kafka_share.protocol.handshake import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext


def handle_handshake(
    cluster: Cluster, context: RequestContext, request: SaslHandshakeRequest, now_ms: int
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=IllegalSaslStateError.code, mechanisms=[])


def handle_authenticate(
    cluster: Cluster, context: RequestContext, request: SaslAuthenticateRequest, now_ms: int
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=IllegalSaslStateError.code,
        error_message="no authentication is under way on this connection",
    )
