"""Who may do what: the decision over access control lists.

`handlers/authorization.py` asks for each request, the share machines for each partition of a session.

Source: Kafka's `StandardAuthorizer` and the default `authorizeByResourceType` of its interface `Authorizer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafka_share.admin_values import AclOperation
from kafka_share.broker.security.acls import WILDCARD, AclPattern, AclPermission

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_share.broker.security.acls import Acl, AclResource, Acls

_EVERYONE: Final = f"User:{WILDCARD}"
_NO_NAME: Final = ""
"""What may be done with a resource of this name may be done with all."""
_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: frozenset((AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)),
    AclOperation.DESCRIBE_CONFIGS: frozenset((AclOperation.ALTER_CONFIGS,)),
}
"""Operation -> those whose permission includes it. A denial includes nothing."""


class Authorizer:
    """Decides by `acls`, as they are at that moment.

    A denial is stronger than a permission. `super_users` are principals that may do everything. What no ACL covers is
    denied, or allowed to everyone if `allow_without_acls`.
    """

    def __init__(self, acls: Acls, super_users: Iterable[str], *, allow_without_acls: bool = False) -> None:
        self._acls = acls
        self._super_users = frozenset(super_users)
        self._allow_without_acls = allow_without_acls

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Whether the principal may do this with the resource, from the host."""
        if principal in self._super_users:
            return True
        allowed, covered = False, False
        for acl in self._acls.covering(resource, name):
            covered = True
            if _is_about(acl, principal, host, operation):
                if acl.permission is AclPermission.DENY:
                    return False
                allowed = True
        return allowed or (self._allow_without_acls and not covered)

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource: AclResource) -> bool:
        """Whether there may be a resource of this type with which the principal may do this."""
        if self.allows(principal, host, operation, resource, _NO_NAME):
            return True
        about = [
            acl
            for acl in self._acls
            if acl.resource is resource
            and acl.principal in (principal, _EVERYONE)
            and acl.host in (host, WILDCARD)
            and acl.operation in (operation, AclOperation.ALL)
        ]
        denied = [acl for acl in about if acl.permission is AclPermission.DENY]
        if any(acl.pattern is AclPattern.LITERAL and acl.name == WILDCARD for acl in denied):
            return False
        return any(acl.permission is AclPermission.ALLOW and not _is_dominated(acl, denied) for acl in about)


def _is_about(acl: Acl, principal: str, host: str, operation: AclOperation) -> bool:
    if acl.principal not in (principal, _EVERYONE) or acl.host not in (host, WILDCARD):
        return False
    if acl.operation in (operation, AclOperation.ALL):
        return True
    return acl.permission is AclPermission.ALLOW and acl.operation in _IMPLIED_BY.get(operation, ())


def _is_dominated(allowing: Acl, denied: Iterable[Acl]) -> bool:
    """Whether a denial covers everything that this permission covers."""
    return any(
        allowing.name.startswith(acl.name)
        if acl.pattern is AclPattern.PREFIXED
        else acl.pattern is allowing.pattern and acl.name == allowing.name
        for acl in denied
    )
