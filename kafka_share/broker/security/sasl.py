"""The SASL mechanisms that a broker offers, made from its settings and users. The server keeps one `Sasl`."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from kafka_share.broker.security.authentication import Mechanisms
from kafka_share.broker.security.oauthbearer import OAUTHBEARER, OAuthBearerServer
from kafka_share.broker.security.plain import PLAIN, PlainServer
from kafka_share.broker.security.scram import ScramMechanism, ScramServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_share.broker.configs.configs import Configs
    from kafka_share.broker.security.mechanism import Mechanism
    from kafka_share.broker.security.passwords import Passwords
    from kafka_share.broker.security.scram_users import ScramUsers
    from kafka_share.broker.security.tokens import TokenValidator


logger: logging.Logger = logging.getLogger(__name__)


class Sasl:
    """`new_nonce` makes the broker's part of a SCRAM nonce: printable ASCII without a comma, never the same again."""

    def __init__(self, passwords: Passwords, oauth: TokenValidator | None, new_nonce: Callable[[], str]) -> None:
        self._passwords = passwords
        self._oauth = oauth
        self._new_nonce = new_nonce
        self._has_warned = False
        """As long as the settings stay as they are."""

    def mechanisms(self, configs: Configs, scram_users: ScramUsers) -> Mechanisms:
        """What is enabled now, in the order of `sasl.enabled.mechanisms`."""
        makers: dict[str, Callable[[], Mechanism]] = {PLAIN: partial(PlainServer, self._passwords)}
        for mechanism in ScramMechanism:
            makers[mechanism.label] = partial(self._scram, mechanism, scram_users)
        if self._oauth is not None:
            makers[OAUTHBEARER] = partial(OAuthBearerServer, self._oauth)
        enabled = [name.strip() for name in configs.broker_value("sasl.enabled.mechanisms").split(",")]
        lacks_oauth = self._oauth is None and OAUTHBEARER in enabled
        if lacks_oauth and not self._has_warned:
            logger.warning("OAUTHBEARER is enabled and not offered: nothing judges its tokens (Security(oauth=…))")
        self._has_warned = lacks_oauth
        if self._oauth is not None and OAUTHBEARER not in enabled:
            enabled.append(OAUTHBEARER)
        return Mechanisms(
            {name: makers[name] for name in enabled if name in makers}, configs.broker_int("connections.max.reauth.ms")
        )

    def _scram(self, mechanism: ScramMechanism, users: ScramUsers) -> ScramServer:
        return ScramServer(mechanism, lambda name: users.find(name, mechanism), self._new_nonce())
