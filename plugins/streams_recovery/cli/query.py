"""The command that asks the running application for a key, beside a savepoint."""

from __future__ import annotations

from typing import Annotated

import typer

from streams_recovery.cli.context import DEFAULT_CONFIGS, Configs, Name, recovery_of
from streams_recovery.cli.screen import AsJson, print_json, say
from streams_recovery.cli.screen import table as print_table
from streams_recovery.cli.state import DIFFERENT, NOTHING_COMPARED, Store
from streams_recovery.core.errors import NotFound
from streams_recovery.core.state.key_query import KeyQuestion, answer_fields
from streams_recovery.core.words import LATEST, LIVE
from streams_recovery.operations import state as tables
from streams_recovery.serdes.rows import schema_of

_MORE = "only the first 1,000 windows of the running application are shown: choose less with --from and --to"
_MORE_SAVED = f"only {tables.MOST_ROWS:,} rows of the savepoint are shown: choose less with --from and --to"


def query(
    name: Name,
    store: Store,
    key: Annotated[str, typer.Argument(metavar="KEY", help="As the store's table shows it.")],
    configs: Configs = DEFAULT_CONFIGS,
    savepoint: Annotated[
        str, typer.Option("--savepoint", metavar="ID", help="A savepoint's id, `latest`, or `live` to ask the running application only.")
    ] = LATEST,
    *,
    start: Annotated[
        int | None, typer.Option("--from", metavar="MS", help="Only windows and sessions from here on (ms since 1970).")
    ] = None,
    end: Annotated[int | None, typer.Option("--to", metavar="MS", help="Only windows and sessions up to here (ms since 1970).")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask the running application for a key, of the instance that has it, and compare with a savepoint. Exit code 0 when they are equal, 9 when not, 10 when
    that cannot be told. With --savepoint live only the application is asked.
    """
    question = KeyQuestion(store=store, key=key, start=start, end=end)
    with recovery_of(name, configs) as recovery:
        found = tables.ask_key(recovery, question, savepoint)
    if as_json:
        print_json(
            {
                "store": store,
                "key": key,
                "live": answer_fields(found.live),
                "savepoint": found.savepoint_id,
                "rows": [tables.as_json(row, found.form) for row in found.rows] if found.form else [],
                "more": found.more,
                "equal": found.equal,
            }
        )
    else:
        _show(key, found)
    _conclude(store, key, found)


def _show(key: str, found: tables.Asked) -> None:
    columns = ("in", "key", "window_start", "window_end", "value")
    rows = [(f"{LIVE} ({found.live.instance})", cells) for cells in tables.live_cells(key, found.live)]
    if found.form is not None:
        names = schema_of(found.form).names
        rows += [(str(found.savepoint_id), dict(zip(names, tables.in_columns(row, found.form), strict=True))) for row in found.rows]
    used = [name for name in columns if name == "in" or any(cells.get(name) for _, cells in rows)]
    print_table(used, [[where if name == "in" else cells.get(name, "") for name in used] for where, cells in rows], folded=used[1:])
    if found.live.more:
        say(_MORE)
    if found.more:
        say(_MORE_SAVED)


def _conclude(store: str, key: str, found: tables.Asked) -> None:
    """Say what came out, and end with its exit code."""
    there = found.live.found or any(row["value"] is not None for row in found.rows)
    if not there:
        raise NotFound(
            f"{found.live.instance} has no key {key} in store {store}"
            + ("" if found.savepoint_id is None else f", nor has {found.savepoint_id}"),
            next_step="write the key as `streams-recovery state` shows it; docs/endpoints.md says how keys that are no text are read",
            store=store,
        )
    if found.savepoint_id is None:
        return
    say(f"the running application has {tables.LIVE_WORDS[found.live.found, found.equal]}")
    if found.equal is not True:
        raise typer.Exit(NOTHING_COMPARED if found.equal is None else DIFFERENT)
