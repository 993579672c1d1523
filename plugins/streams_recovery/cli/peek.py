"""The command that shows a few records of a topic, or what a store has for a key; live or in a savepoint."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

import typer

from streams_recovery.cli.context import DEFAULT_CONFIGS, AsJson, Configs, Key, Name, Where, option, print_json, recovery_of
from streams_recovery.cli.screen import line, say
from streams_recovery.cli.screen import table as print_table
from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.core.state.inspection import RECORD_COLUMNS, STORE, record_cells
from streams_recovery.core.state.peek import PeekRecord, PeekRequest
from streams_recovery.operations import state as tables
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.state.peek import peek as look


def peek(
    name: Name,
    topic: Annotated[str, typer.Argument(metavar="[TOPIC]", help="A topic. Leave it out with --store.")] = "",
    configs: Configs = DEFAULT_CONFIGS,
    *,
    store: Annotated[str, option(STORE, metavar="STORE")] = "",
    key: Key = None,
    savepoint: Where = tables.LIVE,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Only this partition.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", min=0, help="From this offset on; without it the newest records.")] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=10_000, help="So many records of each partition.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show records of a topic as they are, or the newest value of a store's key, on the cluster now or in a savepoint. Exit code 4 when there is none."""
    if bool(topic) == bool(store) or (key is None) == bool(store):
        raise ConfigInvalid("one of two can be looked at", next_step="name a topic; or a store with --store, and a key of it with --key")
    with recovery_of(name, configs) as recovery:
        if store:
            _show_key(recovery, store, str(key), savepoint, partition, as_json=as_json)
            return
        found = look(recovery, PeekRequest(topic=topic, savepoint=savepoint, partition=partition, offset=offset, count=count))
    if as_json:
        print_json([record.as_json() for record in found])
    else:
        _show(found)
    say(f"{len(found)} records of {topic}")


def _show(found: list[PeekRecord]) -> None:
    print_table(RECORD_COLUMNS, map(record_cells, found), folded=RECORD_COLUMNS[3:])


def _show_key(recovery: RecoveryContext, store: str, key: str, savepoint: str, partition: int | None, *, as_json: bool) -> None:
    side = tables.open_side(recovery, store, savepoint)
    if partition is not None:
        side = replace(side, partitions=tuple(number for number in side.partitions if number == partition))
    rows = [tables.as_json(row, side.form) for row in tables.matching_rows(side, key, deleted=True)]
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            line(json.dumps(row, ensure_ascii=False))
    if not rows:
        raise NotFound(
            f"store {store} has no key {key} in {side.name}",
            next_step="write the key as `streams-recovery state` shows it, and bytes in hex",
            store=store,
        )
