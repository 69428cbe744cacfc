"""The actions of `kafka-share-groups` that change nothing: `--list` and `--describe`.

`command` calls them; True means that everything that was asked for was shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import click

from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import (
    ConfigEntry,
    GroupListings,
    GroupType,
    ShareGroupDescription,
    ShareGroupOffsets,
)
from kafka_share.cli.endings import with_remedy
from kafka_share.cli.groups import documents, tables
from kafka_share.cli.groups.rules import Options, chosen_states
from kafka_share.cli.output import print_document, print_line
from kafka_share.errors import KafkaShareError

T = TypeVar("T")
Configs: TypeAlias = dict[str, ConfigEntry]


def run_list(admin: KafkaShareAdmin, options: Options) -> bool:
    """The ids of the groups; with --state their states, too."""
    states = chosen_states(options.state or "")
    listings = admin.list_share_groups(states or None, timeout_ms=options.timeout_ms)
    if not listings.groups:
        _warn_if_switched_off(admin, options)
    if options.json:
        show_json({"groups": [documents.listed(listing) for listing in listings.groups]})
    elif options.state is None:
        click.echo(tables.group_names(listings.groups), nl=False)
    else:
        click.echo(tables.group_states(listings.groups), nl=False)
    return warn_of_missing(listings)


def run_describe(admin: KafkaShareAdmin, options: Options) -> bool:
    """One view of each group, ordered by id."""
    group_ids, complete = chosen_groups(admin, options)
    if options.configs:
        configs = admin.describe_group_configs(group_ids, timeout_ms=options.timeout_ms)
        return _show(options, configs, *_configs_view(options)) and complete
    groups = admin.describe_share_groups(group_ids, timeout_ms=options.timeout_ms)
    if options.members:
        return _show(options, groups, documents.members, _members_view(options)) and complete
    if options.state is not None:
        return _show(options, groups, documents.state, _state_view(options)) and complete
    offsets = _offsets(admin, options, groups)
    return _show(options, offsets, documents.offsets, _offsets_view(options)) and _all_known(offsets) and complete


def chosen_groups(admin: KafkaShareAdmin, options: Options) -> tuple[list[str], bool]:
    """The ids of --group or --all-groups in their order, and whether every broker was asked with success."""
    if not options.all_groups:
        return sorted(set(options.group)), True
    listings = admin.list_share_groups(timeout_ms=options.timeout_ms)
    return [listing.group_id for listing in listings.groups], warn_of_missing(listings)


def warn_of_missing(listings: GroupListings) -> bool:
    """Name the brokers that could not be asked; returns whether there is none."""
    for node, error in listings.errors.items():
        print_line(f"Warning: the groups of {node} are missing: {with_remedy(error)}", err=True)
    return not listings.errors


def _warn_if_switched_off(admin: KafkaShareAdmin, options: Options) -> None:
    if admin.describe_cluster(timeout_ms=options.timeout_ms).share_version < 1:
        print_line(
            "Warning: share groups are switched off in this cluster: its feature share.version is at level 0.", err=True
        )


def show_json(document: Mapping[str, object]) -> None:
    """The one document of a run."""
    print_document(document, indent=2)


def type_of_other(admin: KafkaShareAdmin, group_id: str, timeout_ms: int) -> GroupType | None:
    """The type of the group of this id, if there is one that is not a share group."""
    found = {listing.group_id: listing.group_type for listing in admin.list_groups(timeout_ms=timeout_ms).groups}
    kind = found.get(group_id)
    return None if kind is GroupType.SHARE else kind


def _show(
    options: Options,
    results: Mapping[str, T | KafkaShareError],
    as_document: Callable[[str, T], dict[str, Any]],
    as_text: Callable[[str, T], None],
) -> bool:
    """Each group in the chosen format; True if there is no error among the results.

    As text, a group that cannot be described leaves the others unshown, as with Kafka's tool: its error is raised.
    """
    shown = []
    for group_id, result in sorted(results.items()):
        if isinstance(result, KafkaShareError):
            if not options.json:
                raise result
            shown.append(documents.failed(group_id, result))
        elif options.json:
            shown.append(as_document(group_id, result))
    if options.json:
        show_json({"groups": shown})
        return not any("error" in document for document in shown)
    for group_id, result in sorted(results.items()):
        if not isinstance(result, KafkaShareError):
            as_text(group_id, result)
    return True


def _configs_view(
    options: Options,
) -> tuple[Callable[[str, Configs], dict[str, Any]], Callable[[str, Configs], None]]:
    def as_document(group_id: str, configs: Configs) -> dict[str, Any]:
        return documents.configs(group_id, configs.values(), all_of_them=options.all)

    def as_text(group_id: str, configs: Configs) -> None:
        click.echo(tables.configs(group_id, configs.values(), all_of_them=options.all), nl=False)

    return as_document, as_text


def _members_view(options: Options) -> Callable[[str, ShareGroupDescription], None]:
    def as_text(_: str, group: ShareGroupDescription) -> None:
        if group.members:
            click.echo(tables.members(group, verbose=options.verbose), nl=False)
        else:
            _remark_no_members(group)

    return as_text


def _state_view(options: Options) -> Callable[[str, ShareGroupDescription], None]:
    def as_text(_: str, group: ShareGroupDescription) -> None:
        click.echo(tables.state(group, verbose=options.verbose), nl=False)
        if not group.members:
            _remark_no_members(group)

    return as_text


def _offsets_view(options: Options) -> Callable[[str, ShareGroupOffsets], None]:
    def as_text(group_id: str, offsets: ShareGroupOffsets) -> None:
        if offsets:
            click.echo(tables.offsets(group_id, offsets, verbose=options.verbose), nl=False)
        else:
            print_line(f"Group '{group_id}' has no offsets: none of its partitions has share state.", spaced=True)

    return as_text


def _offsets(
    admin: KafkaShareAdmin, options: Options, groups: Mapping[str, ShareGroupDescription | KafkaShareError]
) -> dict[str, ShareGroupOffsets | KafkaShareError]:
    """Of the groups that could be described: asking for the offsets of a group that is missing is no error."""
    results: dict[str, ShareGroupOffsets | KafkaShareError] = {
        group_id: one for group_id, one in groups.items() if isinstance(one, KafkaShareError)
    }
    existing = [group_id for group_id in groups if group_id not in results]
    if existing:
        results.update(admin.list_share_group_offsets(dict.fromkeys(existing), timeout_ms=options.timeout_ms))
    return results


def _all_known(results: Mapping[str, ShareGroupOffsets | KafkaShareError]) -> bool:
    """Name the partitions that have an error instead of an offset; returns whether there is none."""
    known = True
    for group_id, offsets in sorted(results.items()):
        for tp, offset in [] if isinstance(offsets, KafkaShareError) else sorted(offsets.items()):
            if isinstance(offset, KafkaShareError):
                print_line(f"Warning: {tp} of group '{group_id}' is unknown: {with_remedy(offset)}", err=True)
                known = False
    return known


def _remark_no_members(group: ShareGroupDescription) -> None:
    print_line(f"Group '{group.group_id}' has no members at the moment.", err=True, spaced=True)
