"""One request on its way past the authorizer: what its client may not do is taken out of it, and put into its answer.

`authorization.py` has a rule for each API, made of steps. A step looks at the request, and either refuses it as a whole
by returning a `Denial`, or takes parts out of it. The handler gets what is left and knows nothing of that; the parts
that were taken out are put into its answer, whenever that comes. Nothing else is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kafka_share.admin_values import AclOperation
from kafka_share.broker.error_answers import error_answer
from kafka_share.broker.refusals import ErrorCode
from kafka_share.broker.security.acls import CLUSTER_NAME, AclResource
from kafka_share.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from uuid import UUID

    from kafka_share.broker.cluster import Cluster
    from kafka_share.broker.events import Message, RequestContext

_CODES: Final = {
    AclResource.TOPIC: TopicAuthorizationFailedError.code,
    AclResource.GROUP: GroupAuthorizationFailedError.code,
    AclResource.CLUSTER: ClusterAuthorizationFailedError.code,
    AclResource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.code,
}


class Denial(NamedTuple):
    """What the client may not do."""

    operation: AclOperation
    resource: AclResource

    @property
    def code(self) -> int:
        return _CODES[self.resource]

    @property
    def message(self) -> str:
        return f"the client may not {self.operation.name} this {self.resource.name.replace('_', ' ').lower()}"


Judge: TypeAlias = "Callable[[Clearance, Any], Denial | None]"
"""Says of an element of a request what the client may not do with it."""
Step: TypeAlias = "Callable[[Clearance], Denial | None]"
"""Returns why the request is refused as a whole; None if it is not."""
AddDenied: TypeAlias = "Callable[[Message], None]"
"""Puts what was taken out of a request into its answer."""


class Clearance:
    """One request of one client. `request` is what is left of it, never changed in place."""

    def __init__(self, cluster: Cluster, context: RequestContext, request: Message) -> None:
        self.cluster = cluster
        self.context = context
        self.request: Message = request
        self.answer: Message | None = None
        """Set if nothing is left for the handler: `finish` it in place of the handler's answer."""
        self._additions: list[AddDenied] = []

    # ---- what the client may do

    def may(self, operation: AclOperation, resource: AclResource, name: str | None) -> bool:
        """A resource without a name cannot be judged: the handler refuses it."""
        return name is None or self.cluster.allows(self.context, operation, resource, name)

    def denied(self, operation: AclOperation, resource: AclResource, name: str | None) -> Denial | None:
        return None if self.may(operation, resource, name) else Denial(operation, resource)

    def cluster_denied(self, operation: AclOperation) -> Denial | None:
        return self.denied(operation, AclResource.CLUSTER, CLUSTER_NAME)

    def allowed_of(self, operations: Collection[int], resource: AclResource, name: str) -> set[int]:
        """Those of the operations that the client may do."""
        return {one for one in operations if self.may(AclOperation(one), resource, name)}

    def topic_name(self, topic_id: UUID | None) -> str | None:
        return None if topic_id is None else self.cluster.topic_name(topic_id)

    # ---- what steps do

    def take_out(
        self, array: str, judge: Judge, *, all_or_nothing: int | None = None, asks_anyway: bool = False
    ) -> None:
        """Take the elements of an array of the request out of it that are denied; each gets its error in the answer.

        With `all_or_nothing` one denial is enough for all: the others get that code. `asks_anyway`: the handler has
        something to answer when nothing is left, too.
        """
        elements: Sequence[Any] = getattr(self.request, array) or ()
        denials = [judge(self, element) for element in elements]
        if not any(denials):
            return
        left = [element for element, denial in zip(elements, denials, strict=True) if denial is None]
        for denial in dict.fromkeys(filter(None, denials)):
            same = [element for element, one in zip(elements, denials, strict=True) if one == denial]
            self._answer_part(array, same, denial.code, denial.message)
        if all_or_nothing is not None:
            self._answer_part(array, left, all_or_nothing, None)
            left = []
        if asks_anyway:
            self.change(array, left)
        else:
            self.leave(array, left)

    def take_out_below(self, array: str, inner: str, judge: Judge) -> None:
        """The same for the arrays inside of the elements of an array. Null there means all: the answer is filtered."""
        left = []
        for element in getattr(self.request, array):
            parts = getattr(element, inner)
            if parts is None:
                self.add(lambda answer, whose=element: self._filter(answer, array, whose, inner, judge))  # type: ignore[misc]
            denied = {id(part): denial for part in parts or () if (denial := judge(self, part)) is not None}
            if denied:
                for denial in dict.fromkeys(denied.values()):
                    same = [part for part in parts if denied.get(id(part)) == denial]
                    self._answer_inner_part(array, _with(element, inner, same), inner, denial)
                element = _with(element, inner, [part for part in parts if id(part) not in denied])
            left.append(element)
        self.change(array, left)

    def _answer_inner_part(self, array: str, element: Any, inner: str, denial: Denial) -> None:
        part = _with(self.request, array, [element])
        denied = error_answer(part, self.context.api_version, denial.code, denial.message, skipped_levels=2)

        def addition(answer: Message) -> None:
            for entry in getattr(answer, array):
                if entry.group_id == element.group_id:
                    extend(entry, getattr(denied, array)[0])

        self.add(addition)

    def _filter(self, answer: Message, array: str, asked: Any, inner: str, judge: Judge) -> None:
        for entry in getattr(answer, array):
            if entry.group_id == asked.group_id:
                keep(entry, inner, lambda part: judge(self, part) is None)

    def leave(self, array: str, left: list[Any]) -> None:
        """Go on with these elements of the array; without any there is nothing to ask the handler."""
        self.change(array, left)
        if not left:
            self.answer = error_answer(self.request, self.context.api_version, 0)

    def change(self, field: str, value: Any) -> None:
        """Go on with another value of a field of the request."""
        self.request = _with(self.request, field, value)

    def _answer_part(self, array: str, elements: list[Any], code: int, message: str | None) -> None:
        part = _with(self.request, array, elements)
        denied = error_answer(part, self.context.api_version, code, message, skipped_levels=1)
        self.add(lambda answer: extend(answer, denied))

    def add(self, addition: AddDenied) -> None:
        """Do this to the answer of the handler."""
        self._additions.append(addition)

    def refuse(self, denial: Denial) -> None:
        """The whole request is denied."""
        self._additions.clear()
        self.answer = error_answer(self.request, self.context.api_version, denial.code, denial.message)

    def finish(self, answer: Message) -> Message:
        """An answer, with everything that was taken out."""
        for addition in self._additions:
            addition(answer)
        return answer

    @property
    def changes_answer(self) -> bool:
        return bool(self._additions)


def _with(struct: Any, name: str, value: Any) -> Any:
    """A copy that differs in one field."""
    changed = copy(struct)
    setattr(changed, name, value)
    return changed


def keep(answer: Message, array: str, wanted: Callable[[Any], bool]) -> None:
    """Leave only the wanted entries in an array of an answer."""
    setattr(answer, array, [entry for entry in getattr(answer, array) or () if wanted(entry)])


def extend(answer: Message, denied: Message) -> None:
    """Put the entries of one answer behind those of another one, unless that is an error as a whole."""
    if getattr(answer, "error_code", 0):
        return
    for name in answer.declared_fields:
        entries = getattr(denied, name)
        if isinstance(entries, list) and entries:
            setattr(answer, name, [*(getattr(answer, name) or ()), *entries])
