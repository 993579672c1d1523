"""The program: its commands, its help and its exit codes. SIGTERM ends a command as Ctrl-C does, through every teardown."""

from __future__ import annotations

import signal
import sys
from importlib.metadata import version
from types import FrameType
from typing import Annotated, Any

import typer

from streams_recovery.cli import clone, drill, look, maintenance, rebuild, restore, runs, state
from streams_recovery.cli.approval import Approve, PlanOnly, Program, approved, show_plan
from streams_recovery.cli.archive import archive
from streams_recovery.cli.context import (
    DEFAULT_CONFIGS,
    DEFAULT_LOGS,
    AsJson,
    Configs,
    Logs,
    Mode,
    Name,
    SavepointId,
    option,
    print_json,
    recovery_of,
    requester,
    runner,
)
from streams_recovery.cli.groups import groups_app
from streams_recovery.cli.offsets import offsets_app
from streams_recovery.cli.outputs import compare_outputs
from streams_recovery.cli.query import query
from streams_recovery.cli.screen import line, say_command, say_error, say_unexpected, say_waiting, say_warnings
from streams_recovery.cli.screen import table as print_table
from streams_recovery.cli.sites import sites
from streams_recovery.config.loader import config_directory
from streams_recovery.core import codec
from streams_recovery.core.approval import StatedPlan
from streams_recovery.core.errors import EXIT_CODES, Damaged, Forged, RecoveryError
from streams_recovery.core.escaping import code, md
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.project_files import project_files
from streams_recovery.core.repository.publication import Publication, SavepointFacts
from streams_recovery.core.repository.seal import NOT_SEALED, SEAL_IT, SEALED, forged_records, forged_text, seal_of_savepoint
from streams_recovery.core.repository.survival import survives_text
from streams_recovery.core.savepoint.damage import ChangedState
from streams_recovery.core.savepoint.request import CHANGED_STATE, REASON
from streams_recovery.core.words import command, first_names, moment
from streams_recovery.operations import unfinished
from streams_recovery.operations.preflight import of_store
from streams_recovery.operations.restore.strategies import Failover, FromSavepoint, Rebuild, RestoreTopics, Undo
from streams_recovery.operations.savepoint import SavepointRequest, before_savepoint

_DAMAGED, _FORGED = "damaged", "forged"
_HELP = """Savepoints and restores of Kafka Streams applications, from a terminal.

A command that changes something shows what it would do with --plan. --approve HASH carries out exactly that plan. Without either, a command that
replaces or removes something shows its plan and asks you to type the application id. One that only adds something does not ask."""
_CODES = "\b\nExit codes:\n" + "\n".join(f"  {code:<9} {meaning.replace('`', '')}" for code, meaning in EXIT_CODES)

app = typer.Typer(
    cls=Program, help=_HELP, epilog=_CODES, no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False, rich_markup_mode=None
)
savepoints_app = typer.Typer(help="What is in the repository.", no_args_is_help=True)
app.add_typer(savepoints_app, name="savepoints")
app.add_typer(offsets_app, name="offsets")
app.add_typer(groups_app, name="groups")

Reason = Annotated[str, option(REASON)]
Changed = Annotated[ChangedState, option(CHANGED_STATE)]


def _show_version(wanted: bool) -> None:
    if wanted:
        line(version("kafka-streams-recovery"))
        raise typer.Exit


@app.callback()
def main(
    *,
    _: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)] = False,
) -> None:
    """Options of the program itself."""
    say_waiting()
    say_warnings()


@savepoints_app.command("list")
def list_savepoints(name: Name, configs: Configs = DEFAULT_CONFIGS, *, as_json: AsJson = False) -> None:
    """List an application's savepoints, newest last."""
    with recovery_of(name, configs) as recovery:
        found = recovery.savepoints.summaries()
        pinned = unfinished.pins_of(recovery, readable=True)
        sealed = recovery.repository.seals is not None
        adopted = {one for one in found if recovery.repository.adopted(recovery.savepoints.key(one))}
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
    rows = (_cells(savepoint_id, one, pin(savepoint_id), seal(savepoint_id)) for savepoint_id, one in found.items())
    print_table(columns, rows, bad=(_DAMAGED, _FORGED))
    if recovery.config.unsaved_outputs:
        line(f"What survives is inputs and state: records of the outputs {first_names(recovery.config.unsaved_outputs)} are not archived.")
    line(SEALED if sealed else f"{NOT_SEALED} Next: {SEAL_IT}")
    if recovery.repository.forged:
        line(f"{forged_text(len(recovery.repository.forged))}:")
        for record in forged_records(recovery.repository.forged):
            line(f"    {record.key}: {record.why}")
        say_command("What is older than the seals is adopted by:", command("seal", name, "--plan"))


def _cells(savepoint_id: str, one: Publication | Damaged, pin: str, seal: str) -> tuple[str, ...]:
    if isinstance(one, Forged):
        return savepoint_id, "-", _FORGED, "-", "no", "-", pin, _FORGED, "-"
    if isinstance(one, Damaged):
        return savepoint_id, "-", _DAMAGED, "-", "no", "-", pin, seal, one.reason
    records = f"{one.records:,}{', compacted or merged' if one.replaces else ''}"
    survives = "yes" if one.survives_cluster_loss else "no"
    return one.savepoint_id, moment(one.captured_at), one.consistency, one.profile, survives, records, pin, seal, one.parent_id or "-"


def _summary(savepoint_id: str, found: Publication | Damaged) -> dict[str, Any]:
    # One that is damaged must not hide the others.
    if isinstance(found, Damaged):
        return {"savepoint_id": savepoint_id, "damaged": found.reason, "survives_cluster_loss": False}
    return {**codec.encode(codec.fields_of(SavepointFacts, found)), "lost_with_cluster": list(found.lost_with_cluster)}


@savepoints_app.command("show")
def show_savepoint(name: Name, savepoint: SavepointId, configs: Configs = DEFAULT_CONFIGS) -> None:
    """Print a savepoint's manifest as JSON."""
    with recovery_of(name, configs) as recovery:
        print_json(recovery.savepoints.outline(recovery.savepoints.id_of(savepoint)))


@app.command()
def backup(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    reason: Reason = "by hand",
    *,
    mode: Mode = None,
    changed_state: Changed = ChangedState.REFUSE,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint now. It asks only when --changed-state accepts damaged or replaced state."""
    with recovery_of(name, configs) as recovery:
        planned = _backup_plan(recovery.application_id, mode or recovery.config.quiesce_mode, changed_state)
        if plan_only:
            found = look.findings_text((*of_store(recovery), *before_savepoint(recovery, mode)))
            show_plan(planned, md("{}\n\n{}", planned.text, found), as_json=as_json)
            return
        if changed_state is not ChangedState.REFUSE or approve is not None:
            approved(planned, planned.text, approve, typed=recovery.application_id)
        run = requester()
        request = SavepointRequest(
            run_id=run.run_id,
            requested_by=run.requested_by,
            reason=reason,
            mode=mode,
            changed_state=changed_state,
            # Typed above, or approved by the hash, where something is accepted.
            confirm=recovery.application_id,
        )
        summary = runs.backup(runner(recovery, logs), request)
    if as_json:
        print_json(summary)
    else:
        line(
            f"savepoint {summary.savepoint_id}: {summary.consistency}, {summary.records:,} records, {summary.new_records:,} new; survives the "
            f"loss of the cluster: {survives_text(survives=summary.survives_cluster_loss, unsaved=recovery.config.unsaved_outputs)}"
        )


def _backup_plan(application_id: str, mode: QuiesceMode, changed_state: ChangedState) -> StatedPlan:
    accepted = {
        ChangedState.REFUSE: md("State that was lost or replaced outside a restore stops it."),
        ChangedState.DAMAGED: md(
            "State that was lost or replaced outside a restore is accepted: **what is left is saved, and labelled damaged**."
        ),
        ChangedState.INTENDED: md("State that was replaced outside a restore is accepted: **what is there now counts as the state**."),
    }
    return StatedPlan(
        application_id=application_id,
        text=md("Take a savepoint of {} now, and hold it meanwhile (mode {}). {}", code(application_id), mode, accepted[changed_state]),
        parts={"how the application is held (`--mode`)": mode.value, "what is accepted (`--changed-state`)": changed_state.value},
    )


def paths(*, as_json: AsJson = False) -> None:
    """Where DAGs, Spark jobs and example configurations are, and where the configurations of your applications are looked for."""
    files = project_files()
    found = {
        "dags": str(files.dags),
        "jobs": str(files.jobs),
        "examples": str(files.configs),
        "configurations": str(config_directory()),
    }
    if as_json:
        print_json(found)
        return
    for name, path in found.items():
        line(f"{name:<15} {path}")


app.command(FromSavepoint.COMMAND)(restore.restore)
app.command(Rebuild.COMMAND, cls=rebuild.ResetToolCommand)(rebuild.rebuild)
app.command(Undo.COMMAND)(restore.undo)
app.command(RestoreTopics.COMMAND)(rebuild.restore_topics)
app.command(Failover.COMMAND)(restore.failover)
app.command()(restore.resume)
app.command("append-quarantine")(rebuild.append_quarantine)
app.command()(archive)
app.command()(clone.clone)
app.command("compare-outputs")(compare_outputs)
app.command("cut-over")(clone.cut_over)
app.command("roll-back")(clone.roll_back)
app.command()(clone.upgrade)
app.command()(look.compatible)
app.command()(maintenance.compact)
app.command()(maintenance.merge)
app.command()(state.state)
app.command("state-diff")(state.state_diff)
app.command("state-write")(state.state_write)
app.command()(drill.drill)
app.command()(drill.drills)
app.command()(drill.reprocess)
app.command()(drill.reprocessed)
app.command()(look.info)
app.command()(look.peek)
app.command()(query)
app.command()(look.evidence)
app.command()(look.advise)
app.command()(look.preflight)
app.command()(paths)
app.command()(sites)
app.command()(maintenance.verify)
app.command()(maintenance.expire)
app.command()(maintenance.undelete)
app.command()(maintenance.seal)
app.command("seal-key")(maintenance.seal_key)
app.command()(maintenance.unlock)
app.command()(maintenance.dismiss)
savepoints_app.command()(maintenance.keep)
savepoints_app.command()(maintenance.release)


def run() -> None:
    """The command's entry point: our errors become one line and their exit code."""
    end_by_teardown()
    try:
        app()
    except RecoveryError as error:
        say_error(error)
        sys.exit(error.exit_code)
    except Exception:  # noqa: BLE001 - it ends here in any case, and its text may come from anywhere
        say_unexpected()
        sys.exit(RecoveryError.exit_code)


def end_by_teardown() -> None:
    """Let SIGTERM end this process by ``SystemExit`` (143), so that what a run has held comes back first.

    Without a handler it would end a process at once, and not at all the first process of a container. A second SIGTERM does not disturb the teardown.
    """
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)
