"""Whether each file was counted exactly once: the check at the end of the pipeline. Pure; nothing here knows Spark."""

from __future__ import annotations

from collections.abc import Iterable

from input_files import Place

_MOST_SHOWN = 10


def problems_of(twice: list[Place], counted: set[Place] | None, published: set[Place] | None) -> list[str]:
    """What is wrong with the records that were counted or set aside; nothing: each was exactly once.

    `twice`: those that were more than once. `counted` and `published`: which were, and which there are, if it is known.
    """
    problems = []
    if twice:
        problems.append(f"{len(twice)} records were counted more than once: {_shown(twice)}")
    if counted is not None and published is not None:
        missing, unknown = published - counted, counted - published
        if missing:
            problems.append(f"{len(missing)} records were not counted: {_shown(sorted(missing))}")
        if unknown:
            problems.append(f"{len(unknown)} records were counted, but not published: {_shown(sorted(unknown))}")
    return problems


def _shown(places: Iterable[Place]) -> str:
    names = [f"{topic}-{partition}@{offset}" for topic, partition, offset in places]
    return ", ".join(names[:_MOST_SHOWN]) + (", ..." if len(names) > _MOST_SHOWN else "")
