"""Commands that show a key, a store and records of a topic, compare two stores, and write an edited one back."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from streams_recovery.cli import runs
from streams_recovery.cli.context import DEFAULT_CONFIGS, DEFAULT_LOGS, Configs, Logs, Name, new_run_id, option, recovery_of, requester
from streams_recovery.cli.form import Call, asks
from streams_recovery.cli.runner import runner
from streams_recovery.cli.screen import AsJson, data, line, print_json, say
from streams_recovery.cli.screen import table as print_table
from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.core.forms import reason_field
from streams_recovery.core.state.inspection import RECORD_COLUMNS, RecordsRequest, record_cells
from streams_recovery.core.state.key_query import answer_fields
from streams_recovery.core.state.table import StoreFormat
from streams_recovery.core.words import LATEST
from streams_recovery.operations import state as tables
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.state import FileFormat, FoundKey, StoreSide
from streams_recovery.operations.state.records import records_of
from streams_recovery.serdes.rows import Row, schema_of

# Not codes of errors: what a comparison found. Equal is 0.
DIFFERENT, NOTHING_COMPARED = 9, 10
_SHOWN = 100

Store = Annotated[str, typer.Argument(metavar="STORE", help="A store's name, as in its changelog.")]
Where = Annotated[
    str, typer.Option("--savepoint", metavar="ID", help="A savepoint's id, `latest`, or `live` for what is on the cluster now.")
]
_MORE = "only the first 1,000 windows of the running application are shown: choose less with --from and --to"
_MORE_ROWS = f"only {tables.MOST_ROWS:,} rows of {{}} are shown: choose less with --from and --to"


def get_key(
    name: Name,
    store: Store,
    key: Annotated[str, typer.Argument(metavar="KEY", help="As `state show` shows it; bytes in hex.")],
    configs: Configs = DEFAULT_CONFIGS,
    savepoint: Where = LATEST,
    *,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask the running application too, and compare; with `--savepoint live` only that.")
    ] = False,
    start: Annotated[
        int | None, typer.Option("--from", metavar="MS", help="Only windows and sessions from here on (ms since 1970).")
    ] = None,
    end: Annotated[int | None, typer.Option("--to", metavar="MS", help="Only windows and sessions up to here (ms since 1970).")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a store has for a key, in a savepoint or now, and with --ask what the running application answers. Exit code 4 when nobody has it. With --ask
    0 when both have the same, 9 when not, 10 when that cannot be told.
    """
    with recovery_of(name, configs) as recovery:
        found = tables.get_key(recovery, store, key, savepoint, ask=ask, start=start, end=end)
    if as_json:
        print_json(
            {
                "store": store,
                "key": key,
                "live": None if found.live is None else answer_fields(found.live),
                "savepoint": found.side,
                "rows": [tables.as_json(row, found.form) for row in found.rows] if found.form else [],
                "more": found.more,
                "equal": found.equal,
            }
        )
    else:
        _print_key(key, found)
    _conclude(store, key, found)


def _print_key(key: str, found: FoundKey) -> None:
    columns = ("in", "key", "window_start", "window_end", "valid_from", "valid_to", "value", "timestamp")
    rows = list[tuple[str, dict[str, str]]]()
    if found.live is not None:
        rows = [(f"the application ({found.live.instance})", cells) for cells in tables.live_cells(key, found.live)]
    if found.form is not None:
        names = schema_of(found.form).names
        rows += [(str(found.side), dict(zip(names, tables.in_columns(row, found.form), strict=True))) for row in found.rows]
    used = [name for name in columns if name == "in" or any(cells.get(name) for _, cells in rows)]
    if rows:
        print_table(used, [[where if name == "in" else cells.get(name, "") for name in used] for where, cells in rows], folded=used[1:])
    if found.live is not None and found.live.more:
        say(_MORE)
    if found.more:
        say(_MORE_ROWS.format(found.side))


def _conclude(store: str, key: str, found: FoundKey) -> None:
    """Say what came out, and end with its exit code."""
    if not found.found:
        sides = [one for one in (None if found.live is None else found.live.instance, found.side) if one]
        raise NotFound(
            f"store {store} has no key {key} in {' and '.join(sides)}" + (": it was deleted" if found.rows else ""),
            next_step="write the key as `streams-recovery state show` shows it, and bytes in hex; docs/endpoints.md says how an application reads it",
            store=store,
        )
    if found.live is None or found.side is None:
        return
    say(f"the running application has {tables.LIVE_WORDS[found.live.found, found.equal]}")
    if found.equal is not True:
        raise typer.Exit(NOTHING_COMPARED if found.equal is None else DIFFERENT)


def show_store(
    name: Name,
    store: Store,
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    savepoint: Where = LATEST,
    *,
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Write there: .parquet, .csv, or .json with an object a line.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=0, help="At most so many rows; 0 for all. A table on the screen has 100.")] = 0,
    deleted: Annotated[bool, typer.Option("--deleted", help="Deleted keys too, as far as the changelog still has them.")] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Let Spark write Parquet: to the directory or address in --out, else into the repository.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a store as a table: the newest value of each key, with keys, windows and values decoded as configured."""
    with recovery_of(name, configs) as recovery:
        if spark:
            _by_spark(recovery, logs, store, savepoint, out, deleted=deleted, plain=not limit)
            return
        side = tables.open_side(recovery, store, savepoint)
        rows = itertools.islice(tables.matching_rows(side, None, deleted=deleted), limit or None)
        if out:
            count = tables.write_table(rows, side.form, tables.file_format(Path(out)), Path(out))
        elif as_json:
            count = tables.write_text(rows, side.form, FileFormat.JSON, data())
        else:
            count = _print(rows, side, unlimited=not limit)
    say(f"{count} rows of store {store} in {side.name}, {len(side.partitions)} partitions")


def _print(rows: Iterator[Row], side: StoreSide, *, unlimited: bool) -> int:
    names = schema_of(side.form).names
    shown = [tables.in_columns(row, side.form) for row in (itertools.islice(rows, _SHOWN) if unlimited else rows)]
    print_table(names, shown, folded=names)
    more = sum(1 for _ in rows)
    if more:
        say(f"{more} more rows are not shown: --limit and --json show them")
    return len(shown) + more


def _by_spark(recovery: RecoveryContext, logs: Path, store: str, savepoint: str, out: str, *, deleted: bool, plain: bool) -> None:
    if not plain or savepoint == tables.LIVE:
        raise ConfigInvalid("Spark writes whole tables of savepoints", next_step="leave --limit out, and name a savepoint")
    directory = out if "://" in out else Path(out).absolute().as_uri() if out else None
    request = tables.ExportRequest(store=store, savepoint=savepoint, run_id=new_run_id(), deleted=deleted, directory=directory)
    savepoint_id, done = runs.export(runner(recovery, logs), request)
    for part in done.parts:
        line(part.key)
    say(f"{done.rows} rows of store {store} in {savepoint_id}" + ("" if directory is None else f", written to {directory}"))


def diff_stores(
    name: Name,
    store: Store,
    before: Annotated[str, typer.Argument(metavar="A", help="A savepoint's id, or `latest`.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another savepoint's id, `latest`, or `live`.")],
    configs: Configs = DEFAULT_CONFIGS,
    *,
    limit: Annotated[int, typer.Option("--limit", min=0, help="At most so many differences; 0 for all. Counts are of all.")] = _SHOWN,
    as_json: AsJson = False,
) -> None:
    """Compare a store at two moments, key by key. Exit code 0 when they are equal, 9 when not, 10 when neither has a key."""
    with recovery_of(name, configs) as recovery:
        one, other = tables.open_side(recovery, store, before), tables.open_side(recovery, store, after)
        found = tables.compare(one, other)
    rows = found.rows[:limit] if limit else found.rows
    if as_json:
        print_json(
            {
                "before": found.before,
                "after": found.after,
                "counts": found.counts,
                "differences": [
                    {**row, **{side: tables.as_json(row[side], form) for side, form in _forms(one, other) if row[side]}} for row in rows
                ],
            }
        )
    else:
        _print_differences(rows, one, other)
    counts = found.counts
    say(
        f"{counts.compared} keys compared, {counts.before} in {found.before} and {counts.after} in {found.after}: "
        f"{counts.changed} changed, {counts.added} added, {counts.removed} removed"
    )
    if not counts.compared:
        say("nothing was compared: neither side holds a key")
        raise typer.Exit(NOTHING_COMPARED)
    if not counts.equal:
        raise typer.Exit(DIFFERENT)


def _forms(one: StoreSide, other: StoreSide) -> tuple[tuple[str, StoreFormat], ...]:
    return ("before", one.form), ("after", other.form)


def _print_differences(rows: Iterable[Row], one: StoreSide, other: StoreSide) -> None:
    names = ("key", "change", one.name, other.name)
    shown = [tables.difference_cells(row, one, other) for row in rows]
    if shown:
        print_table(names, shown, folded=names)


def show_records(
    name: Name,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Any topic of the cluster, or of the savepoint.")],
    configs: Configs = DEFAULT_CONFIGS,
    savepoint: Where = tables.LIVE,
    *,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Only this partition.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", min=0, help="From this offset on; without it the newest records.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="So many records of each partition.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show records of a topic as they are, on the cluster now or in a savepoint."""
    with recovery_of(name, configs) as recovery:
        request = RecordsRequest(topic=topic, savepoint=savepoint, partition=partition, offset=offset, count=limit)
        found = records_of(recovery, request)
    if as_json:
        print_json([record.as_json() for record in found])
    else:
        print_table(RECORD_COLUMNS, map(record_cells, found), folded=RECORD_COLUMNS[3:])
    say(f"{len(found)} records of {topic}")


@asks(without=("logs", "approve"))
def write_store(
    call: Call,
    store: Store,
    table: Annotated[Path, typer.Option("--from", metavar="FILE", help="The whole table: Parquet (.parquet) or JSON lines.")],
    savepoint: Annotated[str, typer.Option("--savepoint", metavar="ID", help="The savepoint that it was made from.")],
    reason: Annotated[str, option(reason_field("the new savepoint"))],
) -> None:
    """Make a savepoint in which a store holds an edited table, and everything else is as in the savepoint named. The old one stays."""
    run = requester()
    request = tables.EditRequest(store=store, base=savepoint, run_id=run.run_id, requested_by=run.requested_by, reason=reason)
    with recovery_of(call.name, call.configs) as recovery:
        form = tables.open_side(recovery, store, savepoint).form
        done = tables.write_state(recovery, request, tables.read_table(table, form), dry_run=call.plan_only)
    if call.as_json:
        print_json(done)
        return
    say(f"{done.kept} keys as they were, {done.changed} changed, {done.added} added, {done.removed} removed")
    if not done.partitioner_seen:
        say("no key of the savepoint shows which partitioner the application uses: Kafka's own was taken")
    if done.savepoint_id is None:
        say("nothing was written")
    else:
        line(f"savepoint {done.savepoint_id}: edited; a restore takes it only by this id")
