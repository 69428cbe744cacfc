"""DescribeUserScramCredentials (50) and AlterUserScramCredentials (51): the users of SCRAM.

- Alter: each user may be changed once in a request, else DUPLICATE_RESOURCE and nothing happens to it. Iterations below
  4096 or above 16384 and an empty name are UNACCEPTABLE_CREDENTIAL, an unknown mechanism UNSUPPORTED_SASL_MECHANISM,
  the deletion of what is not there RESOURCE_NOT_FOUND. Deletions come first in the answer, refusals last.
- Describe: no users means all of them; one named twice is DUPLICATE_RESOURCE, an unknown one RESOURCE_NOT_FOUND.
- The users are there on every listener; on one without SASL nobody needs them.

Source: Kafka's `ScramControlManager` and `ScramImage`.

Versions: DescribeUserScramCredentials (50) 0, AlterUserScramCredentials (51) 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_share.broker.refusals import ErrorCode, Refusal
from kafka_share.broker.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism
from kafka_share.errors import UnsupportedSaslMechanismError
from kafka_share.protocol.scram_users import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import RequestContext

_Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
_Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
_Altered = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
_Described = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


def handle_alter(
    cluster: Cluster, context: RequestContext, request: AlterUserScramCredentialsRequest, now_ms: int
) -> AlterUserScramCredentialsResponse:
    changes: list[_Deletion | _Upsertion] = [*request.deletions, *request.upsertions]
    done, refused = [], []
    for name in dict.fromkeys(change.name for change in changes):
        (change, *others) = [one for one in changes if one.name == name]
        try:
            if others:
                raise Refusal(
                    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
            _alter(cluster, change)
        except Refusal as refusal:
            refused.append(_Altered(user=name, error_code=refusal.code, error_message=refusal.message))
        else:
            done.append(_Altered(user=name, error_code=0, error_message=None))
    return AlterUserScramCredentialsResponse(results=[*done, *refused])


def _alter(cluster: Cluster, change: _Deletion | _Upsertion) -> None:
    mechanism = _mechanism(change)
    if isinstance(change, _Deletion):
        if cluster.scram_users.find(change.name, mechanism) is None:
            raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        cluster.scram_users.remove(change.name, mechanism)
        return
    if not MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
        problem = "Too few iterations" if change.iterations < MIN_ITERATIONS else "Too many iterations"
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
    credential = ScramCredential.of_salted_password(mechanism, change.salted_password, change.salt, change.iterations)
    cluster.scram_users.put(change.name, mechanism, credential)


def _mechanism(change: _Deletion | _Upsertion) -> ScramMechanism:
    """The mechanism of a change that names a user. Raises `Refusal`."""
    if not change.name:
        raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    try:
        return ScramMechanism(change.mechanism)
    except ValueError:
        raise Refusal(UnsupportedSaslMechanismError, "Unknown SCRAM mechanism") from None


def handle_describe(
    cluster: Cluster, context: RequestContext, request: DescribeUserScramCredentialsRequest, now_ms: int
) -> DescribeUserScramCredentialsResponse:
    named = [user.name for user in request.users or ()] or cluster.scram_users.names()
    return DescribeUserScramCredentialsResponse(
        error_code=0,
        error_message=None,
        results=[_describe(cluster, name, named.count(name)) for name in dict.fromkeys(named)],
    )


def _describe(cluster: Cluster, name: str, times: int) -> _Described:
    found = {mechanism: cluster.scram_users.find(name, mechanism) for mechanism in ScramMechanism}
    infos = [
        _Described.CredentialInfo(mechanism=mechanism.value, iterations=credential.iterations)
        for mechanism, credential in found.items()
        if credential is not None
    ]
    if times > 1:
        return _Described(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE.code,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    if not infos:
        return _Described(
            user=name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND.code,
            error_message=f"Attempt to describe a user credential that does not exist: {name}",
        )
    return _Described(user=name, error_code=0, credential_infos=infos)
