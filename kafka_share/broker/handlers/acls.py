"""DescribeAcls (29), CreateAcls (30) and DeleteAcls (31): access control lists.

- Without an authorizer all three are SECURITY_DISABLED.
- An ACL that is there is created again without an error; one that cannot be is refused, and the others are created.
- Filters: null and ANY choose all; MATCH chooses the patterns that cover a name. A number that stands for nothing
  chooses nothing in DescribeAcls, and is INVALID_REQUEST in the other two. Kafka fails a whole CreateAcls for an ACL
  that cannot be made, with UNKNOWN_SERVER_ERROR.
- The cluster has room for 10,000 ACLs.

Versions: DescribeAcls (29) 1 to 3, CreateAcls (30) 1 to 3, DeleteAcls (31) 1 to 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafka_share.admin_values import AclOperation
from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.broker.security.acls import MAX_ACLS, Acl, AclFilter, AclPattern, AclPermission, AclResource
from kafka_share.errors import InvalidArgumentError, InvalidRequestError
from kafka_share.protocol.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext

_DISABLED: Final = "this broker has no authorizer"

_Described = DescribeAclsResponse.DescribeAclsResource
_Created = CreateAclsResponse.AclCreationResult
_Filtered = DeleteAclsResponse.DeleteAclsFilterResult


def _require_authorizer(cluster: Cluster) -> None:
    if cluster.authorizer is None:
        raise Refusal(ErrorCode.SECURITY_DISABLED, _DISABLED)


def handle_describe(
    cluster: Cluster, context: RequestContext, request: DescribeAclsRequest, now_ms: int
) -> DescribeAclsResponse:
    try:
        _require_authorizer(cluster)
    except Refusal as refusal:
        return DescribeAclsResponse(error_code=refusal.code, error_message=refusal.message)
    try:
        chosen = cluster.acls.chosen(_filter(request))
    except Refusal:
        chosen = []
    resources: dict[tuple[AclResource, str, AclPattern], list[Acl]] = {}
    for acl in chosen:
        resources.setdefault((acl.resource, acl.name, acl.pattern), []).append(acl)
    return DescribeAclsResponse(
        error_code=0,
        error_message=None,
        resources=[
            _Described(
                resource_type=resource,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    _Described.AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ],
            )
            for (resource, name, pattern), acls in resources.items()
        ],
    )


def handle_create(
    cluster: Cluster, context: RequestContext, request: CreateAclsRequest, now_ms: int
) -> CreateAclsResponse:
    results = []
    for asked in request.creations:
        try:
            _require_authorizer(cluster)
            acl = _acl(asked)
            if acl not in cluster.acls and len(cluster.acls) >= MAX_ACLS:
                raise Refusal(InvalidRequestError, f"there are {MAX_ACLS} ACLs, and there is no room for more")
            cluster.acls.add(acl)
            results.append(_Created(error_code=0, error_message=None))
        except Refusal as refusal:
            results.append(_Created(error_code=refusal.code, error_message=refusal.message))
    return CreateAclsResponse(results=results)


def handle_delete(
    cluster: Cluster, context: RequestContext, request: DeleteAclsRequest, now_ms: int
) -> DeleteAclsResponse:
    """All filters choose before anything is deleted, so that each of them names what it has chosen."""
    results, chosen = [], dict[Acl, None]()
    for asked in request.filters:
        try:
            _require_authorizer(cluster)
            found = cluster.acls.chosen(_filter(asked))
        except Refusal as refusal:
            results.append(_Filtered(error_code=refusal.code, error_message=refusal.message, matching_acls=[]))
            continue
        chosen |= dict.fromkeys(found)
        matching = [_matching(acl) for acl in found]
        results.append(_Filtered(error_code=0, error_message=None, matching_acls=matching))
    for acl in chosen:
        cluster.acls.remove(acl)
    return DeleteAclsResponse(filter_results=results)


def _matching(acl: Acl) -> DeleteAclsResponse.DeleteAclsFilterResult.DeleteAclsMatchingAcl:
    return _Filtered.DeleteAclsMatchingAcl(
        error_code=0,
        error_message=None,
        resource_type=acl.resource,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _acl(asked: CreateAclsRequest.AclCreation) -> Acl:
    """Raises `Refusal`."""
    try:
        return Acl(
            principal=asked.principal,
            operation=AclOperation(asked.operation),
            resource=AclResource(asked.resource_type),
            name=asked.resource_name,
            pattern=AclPattern(asked.resource_pattern_type),
            permission=AclPermission(asked.permission_type),
            host=asked.host,
        )
    except (ValueError, InvalidArgumentError) as error:
        raise Refusal(InvalidRequestError, str(error)) from None


def _filter(asked: Any) -> AclFilter:
    """Of a DescribeAcls request, or of an element of a DeleteAcls request. Raises `Refusal`."""
    try:
        return AclFilter(
            principal=asked.principal_filter,
            operation=AclOperation(asked.operation),
            resource=AclResource(asked.resource_type_filter),
            name=asked.resource_name_filter,
            pattern=AclPattern(asked.pattern_type_filter),
            permission=AclPermission(asked.permission_type),
            host=asked.host_filter,
        )
    except (ValueError, InvalidArgumentError) as error:
        raise Refusal(InvalidRequestError, str(error)) from None
