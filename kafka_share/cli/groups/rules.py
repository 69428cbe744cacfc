"""Which options of `kafka-share-groups` go together: one action, and what that action takes and needs.

The rules are those of Kafka's own tool, the messages our own. Pure; `command` calls `check`, which raises
`click.UsageError`, or `ToolFailedError` where Kafka's tool notices the mistake only while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import IO, Final

import attrs
import click

from kafka_share.admin_values import GroupState
from kafka_share.cli.endings import ToolFailedError


@attrs.frozen(kw_only=True)
class Options:
    """The options as click has parsed them; a flag is False and a value None when it was not given."""

    list: bool = False
    describe: bool = False
    delete: bool = False
    delete_offsets: bool = False
    reset_offsets: bool = False
    alter: bool = False
    group: tuple[str, ...] = ()
    all_groups: bool = False
    topic: tuple[str, ...] = ()
    all_topics: bool = False
    offsets: bool = False
    members: bool = False
    state: str | None = None
    """The text behind --state; empty without one."""
    configs: bool = False
    all: bool = False
    verbose: bool = False
    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_datetime: str | None = None
    to_offset: int | None = None
    by_duration: str | None = None
    shift_by: int | None = None
    from_file: IO[str] | None = None
    export: bool = False
    dry_run: bool = False
    execute: bool = False
    add_config: tuple[str, ...] = ()
    delete_config: tuple[str, ...] = ()
    timeout_ms: int = 30_000
    output_format: str = "text"

    @property
    def json(self) -> bool:
        return self.output_format == "json"

    def given(self, name: str) -> bool:
        """Whether the option was on the command line."""
        value = getattr(self, name)
        return value is not None and value is not False and value != ()  # 0 and "" were given


ACTIONS: Final = ("list", "describe", "delete", "reset_offsets", "delete_offsets", "alter")
VIEWS: Final = ("offsets", "members", "state", "configs")
TARGETS: Final = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_datetime",
    "to_offset",
    "by_duration",
    "shift_by",
    "from_file",
)
_TAKES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "list": ("state",),
        "describe": ("group", "all_groups", *VIEWS, "all", "verbose"),
        "delete": ("group", "all_groups"),
        "reset_offsets": ("group", "topic", "all_topics", *TARGETS, "export", "dry_run", "execute"),
        "delete_offsets": ("group", "topic"),
        "alter": ("group", "add_config", "delete_config"),
    }
)
"""Action -> the options that mean something with it, besides those that every action takes."""
_LIST_STATES: Final = (GroupState.EMPTY, GroupState.STABLE, GroupState.DEAD)


def check(options: Options) -> str:
    """The chosen action, one of `ACTIONS`."""
    actions = [action for action in ACTIONS if options.given(action)]
    if not actions:
        raise click.UsageError(f"an action is missing: one of {_shown(ACTIONS)}")
    if len(actions) > 1:
        raise click.UsageError(f"one action at a time, not {_shown(actions)}")
    action = actions[0]
    for name in dict.fromkeys(name for takes in _TAKES.values() for name in takes):
        if options.given(name) and name not in _TAKES[action]:
            raise click.UsageError(f"{_option(name)} does not go with {_option(action)}")
    _NEEDS[action](options)
    return action


def chosen_states(text: str) -> tuple[GroupState, ...]:
    """The states named behind `--list --state`, in any case; none: all. Raises `click.UsageError` for other names."""
    by_name = {state.value.lower(): state for state in _LIST_STATES}
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    for name in names:
        if name.lower() not in by_name:
            valid = ", ".join(state.value for state in _LIST_STATES)
            raise click.UsageError(f"--state {text}: {name!r} is not a state of a share group; choose of {valid}")
    return tuple(dict.fromkeys(by_name[name.lower()] for name in names))


def _check_list(options: Options) -> None:
    if options.state is not None:
        chosen_states(options.state)


def _check_describe(options: Options) -> None:
    _either_groups_or_all(options)
    views = [view for view in VIEWS if options.given(view)]
    if len(views) > 1:
        raise click.UsageError(f"--describe takes one of {_shown(VIEWS)}, not {_shown(views)}")
    if options.state:
        raise click.UsageError("--state takes names of states with --list only")
    if options.all and not options.configs:
        raise click.UsageError("--all goes with --configs; for all groups there is --all-groups")
    if options.verbose and options.configs:
        raise click.UsageError("--verbose does not go with --configs; --all shows those that are not set, too")


def _check_delete(options: Options) -> None:
    _either_groups_or_all(options)


def _check_delete_offsets(options: Options) -> None:
    missing = [name for name in ("group", "topic") if not options.given(name)]
    if missing:
        raise click.UsageError(f"--delete-offsets needs {_shown(missing, ' and ')}")
    _one_group(options)


def _check_alter(options: Options) -> None:
    if not options.group:
        raise click.UsageError("--alter needs --group")
    _one_group(options)
    if not options.add_config and not options.delete_config:
        raise click.UsageError("--alter needs --add-config or --delete-config")


def _check_reset(options: Options) -> None:
    if not options.group:
        raise click.UsageError("--reset-offsets needs --group")
    if options.dry_run and options.execute:
        raise click.UsageError("--reset-offsets takes --dry-run or --execute, not both")
    if not options.dry_run and not options.execute:
        raise click.UsageError("--reset-offsets needs --dry-run (show what would be done) or --execute")
    targets = [target for target in TARGETS if options.given(target)]
    if not targets:
        raise click.UsageError(f"--reset-offsets needs a new offset: one of {_shown(TARGETS)}")
    if len(targets) > 1:
        raise click.UsageError(f"--reset-offsets takes one new offset, not {_shown(targets)}")
    _one_group(options)
    scoped = bool(options.topic) or options.all_topics
    if options.from_file is not None and scoped:
        raise click.UsageError("--from-file names the partitions: it does not go with --topic and --all-topics")
    if options.from_file is None and not scoped:
        raise click.UsageError("--reset-offsets needs --topic or --all-topics, or a file with --from-file")


def _either_groups_or_all(options: Options) -> None:
    action = "--describe" if options.describe else "--delete"
    if options.group and options.all_groups:
        raise click.UsageError(f"{action} takes --group or --all-groups, not both")
    if not options.group and not options.all_groups:
        raise click.UsageError(f"{action} needs --group or --all-groups")


def _one_group(options: Options) -> None:
    if len(options.group) > 1:
        raise ToolFailedError("--group is given several times, but this action is about one group", "value")


_NEEDS: Final = {
    "list": _check_list,
    "describe": _check_describe,
    "delete": _check_delete,
    "reset_offsets": _check_reset,
    "delete_offsets": _check_delete_offsets,
    "alter": _check_alter,
}


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _shown(names: Iterable[str], between: str = ", ") -> str:
    return between.join(_option(name) for name in names)
