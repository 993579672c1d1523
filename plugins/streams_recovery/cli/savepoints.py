"""The commands that show what is in the repository."""

from __future__ import annotations

from typing import Any

from streams_recovery.cli.context import DEFAULT_CONFIGS, Configs, FromPlace, Name, SavepointId, recovery_of
from streams_recovery.cli.screen import AsJson, line, print_json, say_command
from streams_recovery.cli.screen import table as print_table
from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, Forged
from streams_recovery.core.repository.publication import Publication, SavepointFacts
from streams_recovery.core.repository.seal import SEALED, forged_records, forged_text, seal_of_savepoint
from streams_recovery.core.words import command, count, first_names, moment
from streams_recovery.operations import second_place, unfinished

_DAMAGED, _FORGED = "damaged", "forged"


def list_savepoints(name: Name, configs: Configs = DEFAULT_CONFIGS, *, place: FromPlace = None, as_json: AsJson = False) -> None:
    """List an application's savepoints, newest last."""
    with recovery_of(name, configs, place=place, lost=False) as recovery:
        found = recovery.savepoints.summaries()
        pinned = unfinished.pins_of(recovery, readable=True)
        sealed = recovery.repository.seals is not None
        adopted = {one for one in found if recovery.repository.adopted(recovery.savepoints.key(one))}
        second = second_place.see_second_place(recovery)
    kept, leaves = set(pinned.kept()), {one.savepoint_id: one.until for one in pinned.releases()}
    if as_json:
        print_json(
            [
                _summary(savepoint_id, one)
                | {
                    "pinned": savepoint_id in kept,
                    "released_until": leaves.get(savepoint_id),
                    "sealed": sealed and not isinstance(one, Forged),
                    "adopted": savepoint_id in adopted and not isinstance(one, Forged),
                    "in_second_place": None if second is None else second.has(savepoint_id),
                }
                for savepoint_id, one in found.items()
            ]
        )
        return

    def pin(savepoint_id: str) -> str:
        return "set" if savepoint_id in kept else f"released: stays until {moment(leaves[savepoint_id])}" if savepoint_id in leaves else "-"

    def seal(savepoint_id: str) -> str:
        return seal_of_savepoint(sealed=sealed, adopted=savepoint_id in adopted)

    columns = ("savepoint", "captured", "consistency", "profile", "survives cluster loss", "records", "pin", "seal", "shares files with")
    rows = (cells(savepoint_id, one, pin(savepoint_id), seal(savepoint_id)) for savepoint_id, one in found.items())
    print_table(columns, rows, bad=(_DAMAGED, _FORGED))
    if second is not None:
        line(f"Second place: {second}.")
    if recovery.config.unsaved_outputs:
        line(f"What survives is inputs and state: records of the outputs {first_names(recovery.config.unsaved_outputs)} are not archived.")
    if sealed:
        line(SEALED)
    if recovery.repository.forged:
        line(f"{forged_text(len(recovery.repository.forged))}:")
        for record in forged_records(recovery.repository.forged):
            line(f"    {record.key}: {record.why}")
        say_command("What is older than the seals is adopted by:", command("seal", name, "--plan"))


def cells(savepoint_id: str, one: Publication | Damaged, pin: str, seal: str) -> tuple[str, ...]:
    """The row of a savepoint."""
    if isinstance(one, Forged):
        return savepoint_id, "-", _FORGED, "-", "no", "-", pin, _FORGED, "-"
    if isinstance(one, Damaged):
        return savepoint_id, "-", _DAMAGED, "-", "no", "-", pin, seal, one.reason
    records = f"{count(one.records)}{', compacted or merged' if one.replaces else ''}"
    survives = "yes" if one.survives_cluster_loss else "no"
    return one.savepoint_id, moment(one.captured_at), one.consistency, one.profile, survives, records, pin, seal, one.parent_id or "-"


def _summary(savepoint_id: str, found: Publication | Damaged) -> dict[str, Any]:
    # One that is damaged must not hide the others.
    if isinstance(found, Damaged):
        return {"savepoint_id": savepoint_id, "damaged": found.reason, "survives_cluster_loss": False}
    return {**codec.encode(codec.fields_of(SavepointFacts, found)), "lost_with_cluster": list(found.lost_with_cluster)}


def show_savepoint(name: Name, savepoint: SavepointId, configs: Configs = DEFAULT_CONFIGS, *, place: FromPlace = None) -> None:
    """Print a savepoint's manifest as JSON."""
    with recovery_of(name, configs, place=place, lost=False) as recovery:
        print_json(recovery.savepoints.outline(recovery.savepoints.id_of(savepoint)))
