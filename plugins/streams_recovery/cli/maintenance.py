"""The commands that look after a repository: check it, expire, keep and bring back savepoints, compact and seal them; and free an application from
what a dead run has left.
"""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Annotated

import typer
import yaml

from streams_recovery.cli import runs
from streams_recovery.cli.approval import BY_HAND, show_plan, show_unasked
from streams_recovery.cli.context import FromPlace, SavepointId, new_run_id, option, recovery_of, requester
from streams_recovery.cli.form import Call, asks
from streams_recovery.cli.runner import runner
from streams_recovery.cli.screen import line, page, print_json, say, say_command, say_error
from streams_recovery.core import codec
from streams_recovery.core.approval import StatedPlan
from streams_recovery.core.errors import Damaged, EntryUnreadable, Refused, RepositoryUnavailable
from streams_recovery.core.escaping import Markdown, code, joined, md
from streams_recovery.core.forms import reason_field
from streams_recovery.core.remedies.locks import NO_RUN_LEFT, proof_of_death
from streams_recovery.core.repository.check import Cause
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.mirror import MirrorPlan, Where, mirror_outline, mirror_text
from streams_recovery.core.words import LATEST, command, moment
from streams_recovery.operations import compaction, maintenance, quiesce_record, unfinished
from streams_recovery.operations.archive import archive_lock
from streams_recovery.operations.compaction import How
from streams_recovery.operations.context import RecoveryContext

# A file that could not be removed is no error of the run, but a person has to know.
LEFT_BEHIND = 8

OfSavepoint = Annotated[str, typer.Argument(metavar="[ID]", help="A savepoint's id, or `latest`.")]
Reason = Annotated[str, option(reason_field("the pin"))]
ReasonOfNew = Annotated[str, option(reason_field("the new savepoint"))]
AsConfigured = Annotated[
    bool,
    typer.Option(
        "--as-configured",
        help="For a schedule: no question is asked. retention.apply says whether the plan is carried out, only shown, or announced first.",
    ),
]


@asks(without=("plan_only", "approve"))
def verify(
    call: Call,
    savepoint: Annotated[str, typer.Argument(metavar="[ID]", help="A savepoint's id, `latest`, or `all`.")] = maintenance.ALL,
    *,
    level: Annotated[str, typer.Option(help="structure: manifests and sizes; full: every byte; sample=10%: a share.")] = "structure",
    cut: Annotated[
        bool, typer.Option("--cut", help="Prove the cut of one savepoint by the names of transactions again, by the logs of the cluster.")
    ] = False,
    place: FromPlace = None,
) -> None:
    """Check that savepoints are still what was written. Exit codes from 20 on say what is wrong: see docs/command-line.md."""
    if cut:
        _prove_cut(call, savepoint, place)
        return
    try:
        with recovery_of(call.name, call.configs, place=place, lost=False) as recovery:
            report = runs.check(runner(recovery, call.logs), savepoint_id=savepoint, level=level, run_id=new_run_id())
    except RepositoryUnavailable as error:
        if call.as_json:
            print_json({"good": False, "exit_code": Cause.UNREACHABLE.exit_code, "causes": [Cause.UNREACHABLE]})
        say(f"{type(error).__name__}: {error.reason}. Next: {Cause.UNREACHABLE.next_step}")
        raise typer.Exit(Cause.UNREACHABLE.exit_code) from None
    if call.as_json:
        print_json({"good": report.good, "exit_code": report.exit_code, "causes": list(report.causes), **codec.encode(report)})
    else:
        for found in report.findings:
            say(str(found))
        line(f"{'good' if report.good else 'NOT GOOD'}: {report.counted}, {len(report.findings)} findings")
        if report.sampling is not None:
            line(str(report.sampling))
        for left in report.left_behind.lines() if report.left_behind is not None else ():
            say(left)
    try:
        maintenance.raise_unless_good(report)
    except Damaged as error:
        say_error(error)
        raise typer.Exit(report.exit_code) from None


def _prove_cut(call: Call, savepoint: str, place: Where | None) -> None:
    with recovery_of(call.name, call.configs, place=place, lost=False) as recovery:
        proven = maintenance.prove_cut(recovery, savepoint)
    if call.as_json:
        print_json(proven)
    else:
        line(proven.text)


@asks(without=("logs",))
def expire(
    call: Call,
    *,
    as_configured: AsConfigured = False,
    place: Annotated[
        Where | None, typer.Option("--from", help="mirror: in the second place, `storage.mirror`, where all stays that the first one has.")
    ] = None,
) -> None:
    """Expire savepoints that no rule of `retention` keeps. Remove files whose grace period is over. Shows the plan and asks first."""
    if as_configured and place is not None:
        raise typer.BadParameter("no schedule expires in a second place: a person does", param_hint="--as-configured")
    with recovery_of(call.name, call.configs, place=place, lost=False) as recovery:
        run_id = new_run_id()
        unasked = as_configured and call.approve is None and not call.plan_only
        due = unasked and maintenance.scheduled(recovery, run_id, recovery.config.retention.apply).due
        planned = maintenance.plan_expiry(recovery)
        text = md("{}\n\nPlan {}.", maintenance.expiry_text(planned), code(planned.hash[:12]))
        if unasked and not due:
            show_plan(planned, text, as_json=call.as_json)
            return
        if not unasked and not call.agreed(planned, text, typed=recovery.application_id):
            return
        report = maintenance.expire(recovery, run_id, approved=planned.hash)
    if call.as_json:
        print_json(report)
    else:
        more = f", the work of {report.runs_removed} runs removed" if report.runs_removed else ""
        more += f", {report.staged_removed} files of killed writers or drills removed" if report.staged_removed else ""
        more += f", {report.keys_removed} data keys removed" if report.keys_removed else ""
        line(
            f"{len(report.expired)} savepoints expired, {report.files_removed} files removed{more}, {len(report.left)} could not be removed"
        )
        for left in (*report.left, *report.plan.not_judged):
            say(left)
        if report.versions_kept:
            say("The bucket keeps versions: what was removed takes room until a lifecycle rule of the bucket lets older versions go")
    if report.left or report.plan.not_judged:
        raise typer.Exit(LEFT_BEHIND)


@asks(without=("logs", "approve"))
def mirror(
    call: Call,
    *,
    full: Annotated[bool, typer.Option("--full", help="Read everything that is there already, too, and put back what is missing.")] = False,
    place: Annotated[
        Where | None,
        typer.Option("--from", help="mirror: the other way round, back to the first place, where that is new or has lost something."),
    ] = None,
) -> None:
    """Copy what is missing in `storage.mirror`, the second place of the repository, and read it there. Overwrites and deletes nothing, so it does not ask."""
    with recovery_of(call.name, call.configs, place=place, lost=False) as recovery:
        if call.plan_only:
            plan = maintenance.plan_mirror(recovery, full=full, back=place is not None)
            print_json(mirror_outline(plan)) if call.as_json else page(mirror_text(plan))
            return
        report = maintenance.fill_mirror(recovery, say, full=full, back=place is not None)
    if call.as_json:
        print_json(report)
    else:
        line(
            f"{report.copied:,} objects with {report.bytes:,} bytes were copied to {report.place}, {report.proven:,} that were there are what they should "
            f"be; {len(report.savepoints)} savepoints are in two places since now"
        )
        for one in report.damaged:
            say(one.why)
    maintenance.raise_unless_mirrored(report)


@asks(without=("logs",))
def move(call: Call) -> None:
    """Make `storage.mirror` the place of the repository, and leave the old one. Copies what is missing, reads all that is there, and marks the old place, so
    that nothing is written to it any more. Shows the plan and asks first.
    """
    with recovery_of(call.name, call.configs) as recovery:
        plan = maintenance.plan_mirror(recovery, moves=True)
        planned = StatedPlan(
            application_id=recovery.application_id, text=_move_text(recovery.repository.location, plan), parts={"the new place": plan.place}
        )
        if not call.agreed(planned, planned.text, typed=recovery.application_id):
            return
        report = maintenance.move(recovery, say)
        sections = recovery.config.storage.moved
    if call.as_json:
        print_json({**sections, "report": report})
        return
    line(
        f"{report.copied:,} objects were copied and {report.proven:,} compared. In the configuration, write this in place of the old keys and of mirror:"
    )
    for text in yaml.safe_dump(sections, sort_keys=False).splitlines():
        line(text)


def _move_text(old: StorageLocation, plan: MirrorPlan) -> Markdown:
    return joined(
        [
            md("### Move the repository of {} to {}", code(plan.application_id), code(plan.place)),
            md(""),
            md("{:,} objects with {:,} bytes are copied. Then all that is there is read and compared.", plan.copies, plan.bytes),
            md(""),
            md(
                "No savepoint is taken and nothing is archived meanwhile. {} keeps all that it has, and is marked: nothing is written to it any more.",
                code(str(old)),
            ),
            md(""),
            md("Locks, work of runs that are over, statuses, alerts, inspections and copies of expired manifests stay behind."),
        ]
    )


@asks(without=("logs",))
def undelete(call: Call) -> None:
    """Bring back savepoints that were deleted from a bucket with versions, or overwritten in it. Shows the plan and asks first."""
    with recovery_of(call.name, call.configs) as recovery:
        planned = maintenance.plan_undelete(recovery)
        if not call.agreed(planned, _undelete_text(planned), typed=recovery.application_id):
            return
        done = maintenance.undelete(recovery, run_id=new_run_id(), say=say, approved=planned.hash)
    if call.as_json:
        print_json(done)
        return
    line(f"{len(done.objects)} objects with {done.bytes:,} bytes were brought back")
    say_command("Check them:", command("verify", call.name, "--level", "full"))


def _undelete_text(planned: maintenance.UndeletePlan) -> Markdown:
    return joined(
        [
            md("### Bring back what was deleted of {}", code(planned.application_id)),
            md(""),
            md(
                "**{} objects** with {:,} bytes would be brought back. Plan {}.",
                len(planned.objects),
                planned.bytes,
                code(planned.hash[:12]),
            ),
            md(""),
            *(
                part
                for log in planned.anew
                for part in (
                    md("> **Warning:** {} was deleted and has begun anew: its newer entries count, and no older one comes back.", log),
                    md(""),
                )
            ),
            md("| object | was | bytes |"),
            md("|---|---|---:|"),
            *(md("| {} | {} | {:,} |", one.key, one.harm, one.bytes) for one in planned.objects),
        ]
    )


@asks(without=("logs", "approve"))
def keep(call: Call, savepoint: SavepointId, reason: Reason) -> None:
    """Keep a savepoint whatever the rules say. Does not ask."""
    with recovery_of(call.name, call.configs) as recovery:
        savepoint = recovery.savepoints.id_of(savepoint)
        if call.plan_only:
            text = md("Keep savepoint {} of {} whatever the rules of `retention` say.", code(savepoint), code(recovery.application_id))
            planned = StatedPlan(application_id=recovery.application_id, text=text, parts={"the savepoint": savepoint})
            show_unasked(planned, text, as_json=call.as_json)
            return
        pinned = maintenance.pin(recovery, savepoint, keep=True, requested_by=getpass.getuser(), reason=reason)
    if call.as_json:
        print_json(pinned)


@asks(without=("logs",))
def release(
    call: Call,
    savepoint: SavepointId,
    reason: Reason,
    *,
    restore: Annotated[str | None, typer.Option("--restore", help="Give up the later input that this restore has set aside there.")] = None,
) -> None:
    """Leave a savepoint that was kept to the rules again, from retention.grace_days days later on. With --restore it shows the plan and asks first."""
    with recovery_of(call.name, call.configs) as recovery:
        savepoint = recovery.savepoints.id_of(savepoint)
        planned = StatedPlan(
            application_id=recovery.application_id,
            text=_release_text(savepoint, restore),
            parts={"the savepoint": savepoint, "the restore (`--restore`)": restore},
        )
        # Nothing is given up without a restore: then no person is asked.
        unasked = restore is None and call.approve is None and not call.plan_only
        if not unasked and not call.agreed(planned, planned.text, typed=recovery.application_id):
            return
        pinned = maintenance.pin(recovery, savepoint, keep=False, requested_by=getpass.getuser(), reason=reason, restore_id=restore)
    if call.as_json:
        print_json(pinned)
        return
    if pinned.until is not None and not pinned.kept:
        say(f"it stays until {moment(pinned.until)}, and is left to the rules then")
    for restore_id in pinned.restores:
        say(f"still kept: it has the later input of restore {restore_id}")
        say_command("This puts that input back:", command("append-quarantine", call.name, restore_id))
        say_command(
            "This gives it up:", command("savepoints", "release", call.name, savepoint, "--restore", restore_id, "--reason", reason)
        )


def _release_text(savepoint: str, restore: str | None) -> Markdown:
    if restore is None:
        return md("Leave savepoint {} to the rules of `retention` again.", code(savepoint))
    return md(
        "Give up the later input that restore {} has set aside in savepoint {}. Expiry may remove it some days later.",
        code(restore),
        code(savepoint),
    )


@asks(without=("logs",))
def dismiss(
    call: Call, restore: Annotated[str, typer.Argument(metavar="RESTORE", help="The restore's id.")], *, place: FromPlace = None
) -> None:
    """Declare a failed restore over, because the application was brought back in another way. Savepoints can be taken again. Asks first."""
    with recovery_of(call.name, call.configs, place=place) as recovery:
        text = md(
            "Declare restore {} of {} over. What the application holds now counts as its state: "
            "nobody can resume the restore, and savepoints are taken again.",
            code(restore),
            code(recovery.application_id),
        )
        planned = StatedPlan(application_id=recovery.application_id, text=text, parts={"the restore": restore})
        if not call.agreed(planned, text, typed=recovery.application_id):
            return
        unfinished.dismiss(recovery, restore)
    if call.as_json:
        print_json({"restore_id": restore, "dismissed": True})


@asks(without=("logs",))
def unlock(
    call: Call,
    owner: Annotated[
        str, typer.Argument(help="Who holds the lock, exactly as the error says; or the key of a record that cannot be read.")
    ],
    *,
    place: FromPlace = None,
) -> None:
    """Take an application's lock, or that of its archive, from a run that is dead. Make sure that it is dead: one that runs stops at its next step. Asks
    first.
    """
    # A person works in the second place while the first one answers, too: there somebody has to end what a dead run has left.
    with recovery_of(call.name, call.configs, place=place, lost=False) as recovery:
        of_archive = _is_archiver(recovery, owner)
        lock = archive_lock(recovery) if of_archive else recovery.lock
        which = f"lock of the archive of {recovery.application_id}" if of_archive else f"lock of {recovery.application_id}"
        try:
            holder = lock.holder()
            held_by = holder if holder is not None and holder.owner == owner else None
            is_held, proof = held_by is not None, proof_of_death(owner, None if held_by is None else held_by.place)
        except EntryUnreadable:
            is_held, proof = True, NO_RUN_LEFT
        text = md("Take the {} from {}. Only when this run is dead, which is proven when {}.", which, code(owner), proof)
        planned = StatedPlan(application_id=recovery.application_id, text=text, parts={"the lock": which, "the holder": owner})
        if (is_held or call.plan_only) and not call.agreed(planned, text, typed=recovery.application_id):
            return
        taken = lock.take_from(owner)
        if not call.as_json:
            say("taken" if taken else "no run holds the lock")
        held = None if of_archive else quiesce_record.left(recovery)
    if call.as_json:
        print_json({"owner": owner, "taken": taken, "held": held and {"instances": held.instances, "mode": held.mode}})
    elif held is not None:
        say(f"{', '.join(held.instances)} may still be held (mode {held.mode}): the next savepoint brings them back first")


def _is_archiver(recovery: RecoveryContext, owner: str) -> bool:
    """True if what holds the lock of the archive is ``owner``, or the record of this key, which cannot be read."""
    try:
        holder = archive_lock(recovery).holder()
    except EntryUnreadable as error:
        return error.facts["key"] == owner
    return holder is not None and holder.owner == owner


@asks(without=("approve",))
def compact(
    call: Call,
    savepoint: OfSavepoint = LATEST,
    *,
    how: Annotated[
        How,
        typer.Option(
            help="latest-per-key: keep the newest record of each key of changelogs. small-files: merge small files, with every record."
        ),
    ] = How.LATEST_PER_KEY,
    reason: ReasonOfNew = BY_HAND,
) -> None:
    """Compact a savepoint, to the newest record of each key or to fewer files, as a new savepoint of the same moment. The old one stays."""
    with recovery_of(call.name, call.configs) as recovery:
        if call.plan_only:
            plan = compaction.plan(recovery, savepoint, how)
            print_json(plan) if call.as_json else page(compaction.compaction_text(plan))
            return
        run = requester()
        request = compaction.CompactRequest(savepoint=savepoint, how=how, run_id=run.run_id, requested_by=run.requested_by, reason=reason)
        done = runs.compact(runner(recovery, call.logs), request)
    if call.as_json:
        print_json(done)
    elif done is None and how is How.SMALL_FILES:
        say("No files are worth merging: see retention.merge_files")
    elif done is None:
        say_command("Nothing to compact. This says why:", command("compact", call.name, savepoint, "--plan"))
    else:
        for topic, why in done.stays.items():
            say(f"{topic} stays as it is: {why}")
        line(f"savepoint {done.savepoint_id}: {_made(done)}")


def _made(done: compaction.CompactSummary) -> str:
    if done.how is How.SMALL_FILES:
        return f"{done.files_before:,} files of {done.source_id} became {done.files_after:,}, {done.rows_before:,} records compared"
    return f"{done.records_before:,} records of {done.source_id} became {done.records:,}, {done.keys_compared:,} keys compared"


@asks(reason_field("the adoption"), without=("logs",))
def seal(call: Call) -> None:
    """Vouch for the records of a repository that are older than its seals. Shows them and asks first."""
    with recovery_of(call.name, call.configs) as recovery:
        planned = maintenance.plan_adoption(recovery)
        text = md("{}\n\nPlan {}.", planned.text, code(planned.hash[:12]))
        why = call.reason
        if not call.agreed(planned, text, typed=recovery.application_id):
            return
        run = requester()
        done = maintenance.adopt(recovery, run_id=run.run_id, requested_by=run.requested_by, reason=why, approved=planned.hash)
    if call.as_json:
        print_json({"adopted": len(done.records), "refused": list(done.refused), "too_large": list(done.too_large)})
        return
    line(f"{len(done.records):,} records are vouched for, {len(done.refused) + len(done.too_large)} were not adopted")
    for left in (*done.refused, *done.too_large):
        say(left)


def seal_key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the private key. It must not exist.")],
) -> None:
    """Make a pair of keys for `storage.seal`: the private one into a file that only you can read, the public one printed."""
    # Only here: everything else of the command line works where the library is missing.
    from streams_recovery.storage.seals import new_private_key  # noqa: PLC0415

    private, public = new_private_key()
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Refused(f"{file} exists", next_step="nothing was written; name a file that does not exist", path=str(file)) from None
    except OSError as error:
        raise Refused(f"{file} cannot be written: {error.strerror}", next_step="name another file", path=str(file)) from None
    with os.fdopen(handle, "w") as written:
        written.write(f"{private}\n")
        written.flush()
        os.fsync(written.fileno())
    say(f"The private key is in {file}. Keep a copy of it where the repository is not: without it nothing can be added to the repository")
    line(public)
