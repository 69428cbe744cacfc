"""The actions of `kafka-share-groups` that change something: delete, delete offsets, reset offsets, alter configs.

`command` calls them; True means that everything was done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from kafka_share.admin import KafkaShareAdmin
from kafka_share.admin_values import ConfigChange, ShareGroupDescription
from kafka_share.cli.endings import Problem, ToolFailedError, problem_of, with_remedy
from kafka_share.cli.groups import documents, tables
from kafka_share.cli.groups.loaded import still_loaded
from kafka_share.cli.groups.reading import chosen_groups, show_json, type_of_other
from kafka_share.cli.groups.reset import plan_reset
from kafka_share.cli.groups.rules import Options
from kafka_share.cli.groups.targets import offsets_as_csv, parse_config_changes
from kafka_share.cli.output import print_line
from kafka_share.errors import (
    BrokerError,
    GroupIdNotFoundError,
    InvalidConfigError,
    KafkaShareError,
    NonEmptyGroupError,
)
from kafka_share.records import TopicPartition


def run_delete(admin: KafkaShareAdmin, options: Options) -> bool:
    """Delete groups; those that are not share groups, or have members, are named and left alone.

    They are described first: a broker would delete a group of another type just as well.
    """
    group_ids, complete = chosen_groups(admin, options)
    described = admin.describe_share_groups(group_ids, timeout_ms=options.timeout_ms) if group_ids else {}
    problems: dict[str, Problem] = {}
    for group_id, group in described.items():
        if isinstance(group, GroupIdNotFoundError):
            text = "there is no share group of this id; --list shows those that there are"
            problems[group_id] = Problem(group.name, text)
        elif isinstance(group, KafkaShareError):
            problems[group_id] = problem_of(group)
        elif group.members:
            problems[group_id] = Problem(NonEmptyGroupError.name, _has_members(group))
    empty = [group_id for group_id in group_ids if group_id not in problems]
    loaded = {group_id: still_loaded(admin, described[group_id], options.timeout_ms) for group_id in empty}
    results = admin.delete_share_groups(empty, timeout_ms=options.timeout_ms) if empty else {}
    problems.update({group_id: problem_of(error) for group_id, error in results.items() if error is not None})
    outcome = {group_id: problems.get(group_id) for group_id in group_ids}
    if options.json:
        show_json(documents.deletions(outcome))
    else:
        click.echo(tables.deletions(outcome), nl=False)
    for group_id in [group_id for group_id in empty if group_id not in problems]:
        loaded[group_id].warn()
    return complete and not problems


def run_delete_offsets(admin: KafkaShareAdmin, options: Options) -> bool:
    """Forget the offsets of whole topics; topic:0 is taken for a topic of that name, as Kafka's tool does."""
    group_id, topics = options.group[0], list(dict.fromkeys(options.topic))
    loaded = still_loaded(admin, _described(admin, options), options.timeout_ms)
    outcome: dict[str, Problem | None]
    try:
        results = admin.delete_share_group_offsets(group_id, topics, timeout_ms=options.timeout_ms)
        outcome = {topic: None if error is None else problem_of(error) for topic, error in results.items()}
    except BrokerError as error:
        if not options.json:
            print_line(f"Error: {with_remedy(error)}", spaced=True)
        outcome = dict.fromkeys(topics, Problem(error.name, str(error)))
    if options.json:
        show_json(documents.topic_results(group_id, outcome))
    else:
        click.echo(tables.topic_results(outcome), nl=False)
    if any(problem is None for problem in outcome.values()):
        loaded.warn()
    return not any(outcome.values())


def run_reset_offsets(admin: KafkaShareAdmin, options: Options) -> bool:
    """Show where the group is to start, and with --execute have it start there. A missing group is created by that."""
    group_id = options.group[0]
    before = _described(admin, options)
    if isinstance(before, ShareGroupDescription) and before.members:
        raise ToolFailedError(_has_members(before), "state", code=NonEmptyGroupError.name)
    if isinstance(before, GroupIdNotFoundError):
        kind = type_of_other(admin, group_id, options.timeout_ms)
        if kind is not None:
            text = f"group '{group_id}' is a {kind.value} group, not a share group"
            raise ToolFailedError(text, code="OTHER_GROUP_TYPE")
    elif isinstance(before, KafkaShareError):
        raise before
    plan = plan_reset(admin, options)
    errors: Mapping[TopicPartition, KafkaShareError | None] = {}
    loaded = None
    if options.execute and plan.offsets:
        loaded = still_loaded(admin, before, options.timeout_ms, plan.offsets)
        errors = admin.alter_share_group_offsets(group_id, plan.offsets, timeout_ms=options.timeout_ms)
    failed = {tp: error for tp, error in errors.items() if error is not None}
    if failed:
        listed = "; ".join(f"{tp}: {with_remedy(error)}" for tp, error in failed.items())
        raise ToolFailedError(f"{len(failed)} of {len(plan.offsets)} offsets were not altered: {listed}")
    if options.all_topics and not options.topic and not plan.offsets:
        text = "Warning: the group has no offsets yet, so --all-topics names no partition; name topics with --topic."
        print_line(text, err=True)
    if options.json:
        show_json(documents.new_offsets(group_id, plan.offsets, plan.warnings, executed=options.execute))
    else:
        for warning in plan.warnings:
            print_line(f"Warn: {warning}.", err=options.export, spaced=True)
        table = offsets_as_csv(plan.offsets) if options.export else tables.new_offsets(group_id, plan.offsets)
        click.echo(table, nl=False)
    if loaded is not None:
        loaded.warn()
    return True


def run_alter(admin: KafkaShareAdmin, options: Options) -> bool:
    """Set and unset configs of a group, and wait until every broker shows them. All or none of them."""
    group_id = options.group[0]
    wanted = parse_config_changes(options.add_config, options.delete_config)
    _look_for_names(admin, options, [name for name, value in wanted.items() if value is None])
    changes = admin.ensure_group_config(group_id, wanted, timeout_ms=options.timeout_ms)
    if options.json:
        show_json(documents.config_changes(group_id, changes))
        return True
    print_line(f"Group {group_id}: {'; '.join(_shown(name, changes.get(name)) for name in wanted)}.")
    return True


def _look_for_names(admin: KafkaShareAdmin, options: Options, names: Iterable[str]) -> None:
    """Unsetting a config that does not exist succeeds; a misspelt name must not. Raises `ToolFailedError`."""
    known = admin.describe_group_configs([options.group[0]], timeout_ms=options.timeout_ms)[options.group[0]]
    unknown = [] if isinstance(known, KafkaShareError) else [name for name in names if name not in known]
    if unknown:
        assert not isinstance(known, KafkaShareError), "without the names none is unknown"
        share = ", ".join(sorted(name for name in known if name.startswith("share.")))
        text = f"there is no config {', '.join(unknown)} of groups; those of share groups are {share}"
        raise ToolFailedError(text, "value", code=InvalidConfigError.name)


def _shown(name: str, change: ConfigChange | None) -> str:
    if change is None:
        return f"{name} is so already"
    before = "" if change.before is None else f" (it was {change.before})"
    return f"{name} is {'not set any more' if change.after is None else f'{change.after} now'}{before}"


def _described(admin: KafkaShareAdmin, options: Options) -> ShareGroupDescription | KafkaShareError:
    return admin.describe_share_groups([options.group[0]], timeout_ms=options.timeout_ms)[options.group[0]]


def _has_members(group: ShareGroupDescription) -> str:
    return (
        f"group '{group.group_id}' has {len(group.members)} member(s): stop them first, --describe --members shows them"
    )
