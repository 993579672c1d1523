"""What no DAG file says of itself: what its runs hold or stop, for how long, and the command that does the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

NOTHING: Final = "nothing"
_RESTORE: Final = (
    "down from *stop_application* to *start_application*, and behind until it has processed every input up to the end it had. *plan* estimates the "
    "time for each step"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DagFacts:
    """``down`` has the tasks from which and to which the application is held or down, one pair for each group of tasks where that is so."""

    when: str
    stops: str
    how_long: str
    command: str
    down: tuple[tuple[str, str], ...] = ()
    more: str = ""


FACTS: Final[Mapping[str, DagFacts]] = {
    "streams_backup": DagFacts(
        when="`backup.schedule`: every hour by default; and by hand",
        stops="the application is paused (`pause`) or closed (`stop`), or not held at all (`live`)",
        how_long="from *capture_cut* to *resume*: [how long](../concepts/cut-and-tail.md#how-long-the-application-is-paused-or-stopped). The copy runs "
        "after *resume*",
        command="streams-recovery backup orders",
        down=(("capture_cut", "resume"),),
        more="concepts/cut-and-tail.md",
    ),
    "streams_restore_full": DagFacts(
        when="by hand",
        stops="the application",
        how_long=_RESTORE,
        command='streams-recovery restore orders --reason "cluster lost"',
        down=(("stop_application", "start_application"),),
        more="strategies/README.md",
    ),
    "streams_restore_rebuild": DagFacts(
        when="by hand",
        stops="the application",
        how_long="from the stop until the start: no state is loaded. It is then behind until all input is processed again, which takes longer",
        command='streams-recovery rebuild orders --replace --reason "a bug was fixed"',
        down=(("stop_application", "start_application"),),
        more="strategies/rebuild.md",
    ),
    "streams_restore_pitr": DagFacts(
        when="by hand",
        stops="the second application. With `in_place` the application itself, its producers, and every other group that has read its inputs",
        how_long="until the archived input up to the moment is loaded and processed. The application stays down afterwards, until you start it",
        command='streams-recovery restore orders-then --source orders --as-of 2026-11-21T12:00:00Z --reason "what was true at noon"',
        down=(("stop_application", "start_application"),),
        more="strategies/pitr.md",
    ),
    "streams_restore_topics": DagFacts(
        when="by hand",
        stops=f"{NOTHING}. For a topic under its own name you stop the application and its producers before, and start them afterwards",
        how_long="until *finish*",
        command='streams-recovery restore-topics orders --topic orders --reason "somebody deleted it"',
        more="strategies/single-topics.md",
    ),
    "streams_restore_rescale": DagFacts(
        when="by hand",
        stops="the application; and the producers of an input that is created again",
        how_long=_RESTORE,
        command='streams-recovery rescale orders --partitions orders=12 --reason "more tasks"',
        down=(("stop_application", "start_application"),),
        more="strategies/rescale.md",
    ),
    "streams_failover": DagFacts(
        when="by hand",
        stops="the application at the site that it leaves",
        how_long=_RESTORE,
        command='streams-recovery failover orders --to dr --lost primary --reason "the cluster is gone"',
        down=(("stop_application", "start_application"),),
        more="sites.md#failing-over",
    ),
    "streams_upgrade": DagFacts(
        when="by hand",
        stops="the application",
        how_long="from *stop_application* until *start_application* has started the new version: a savepoint, and the time that the deployment takes. When the "
        "new version fails, once more from *roll_back.stop_application* to *roll_back.start_application*, while its state is restored",
        command='streams-recovery upgrade orders --in-place --topology new.txt --reason "version 2.4"',
        down=(("stop_application", "start_application"), ("roll_back.stop_application", "roll_back.start_application")),
        more="strategies/upgrade.md",
    ),
    "streams_undo": DagFacts(
        when="by hand",
        stops="the application",
        how_long=_RESTORE,
        command='streams-recovery undo orders --reason "wrong savepoint"',
        down=(("stop_application", "start_application"),),
        more="concepts/safety-savepoint.md",
    ),
    "streams_append_quarantine": DagFacts(
        when="by hand, after a restore to a moment in place",
        stops=f"{NOTHING}. The application may run. Producers of these inputs must be stopped",
        how_long="until *finish* has counted the records",
        command="streams-recovery append-quarantine orders",
        more="strategies/pitr.md#appending-it-again",
    ),
    "streams_compare": DagFacts(
        when="by hand",
        stops=NOTHING,
        how_long="it takes no lock either: savepoints and restores continue",
        command="streams-recovery state diff orders order-totals 20261121T012345Z-0123456789 latest",
        more="state-as-data.md#comparing",
    ),
    "streams_compare_outputs": DagFacts(
        when="by hand",
        stops=NOTHING,
        how_long="it takes no lock either. *begin* waits until the applications have processed the input that there is",
        command="streams-recovery compare-outputs orders-v2",
        more="compare-outputs.md",
    ),
    "streams_look_up": DagFacts(
        when="by hand",
        stops=NOTHING,
        how_long="it takes no lock either: savepoints and restores continue",
        command="streams-recovery state get orders order-totals order-17",
        more="state-as-data.md#in-airflow",
    ),
    "streams_clone": DagFacts(
        when="by hand",
        stops="`clone`: nothing of the old application. `cut_over`, `roll_back`: both for the change. `offline_upgrade`: the old application for good",
        how_long="`cut_over`, `roll_back`: a stop and a start. `offline_upgrade`: a savepoint and a restore",
        command='streams-recovery clone orders-v2 --reason "version 2"',
        down=(
            ("clone.stop_application", "clone.start_application"),
            ("cut_over.stop", "cut_over.start_live"),
            ("retire.capture_cut", "upgrade.start_application"),
        ),
        more="strategies/clone.md",
    ),
    "streams_drill": DagFacts(
        when="`drill.schedule`: weekly by default; and by hand",
        stops=f"{NOTHING} of the real application",
        how_long="the drill's own application is started, compared and removed",
        command="streams-recovery drill orders",
        more="strategies/drill.md",
    ),
    "streams_reprocess": DagFacts(
        when="by an Airflow backfill, or by hand for one interval",
        stops=f"{NOTHING}. With `publish: replace` stop the application yourself",
        how_long="with `replace`: until the results are written, in one transaction",
        command="streams-recovery reprocess orders --from 2026-11-20T00:00:00Z --to 2026-11-21T00:00:00Z",
        more="strategies/reprocess.md",
    ),
    "streams_run": DagFacts(
        when="`run.schedule`, or by hand",
        stops="the application, at the end of the run: it is down between runs",
        how_long="until the next run",
        command="",
        more="strategies/run.md",
    ),
    "streams_archive": DagFacts(
        when="all the time, with `archive.enabled`: a new run each day",
        stops=NOTHING,
        how_long="it takes no lock of savepoints: these and restores continue",
        command="streams-recovery archive orders",
        more="archive.md",
    ),
    "streams_check": DagFacts(
        when="`check.schedule`: weekly by default; and by hand",
        stops=NOTHING,
        how_long="it takes no lock either: savepoints continue",
        command="streams-recovery verify orders --level full",
        more="airflow.md#streams_check_name",
    ),
    "streams_mirror": DagFacts(
        when="after each savepoint, or at the times of `storage.mirror.schedule`, where the configuration has a second place; and by hand",
        stops=NOTHING,
        how_long="it takes no lock either: savepoints and restores continue",
        command="streams-recovery mirror orders",
        more="storage.md#a-second-place",
    ),
    "streams_compact": DagFacts(
        when="by hand for any application, and on `compact.schedule` where it is set",
        stops=NOTHING,
        how_long="the lock is taken only for *publish*",
        command="streams-recovery compact orders",
        more="airflow.md#streams_compact_name",
    ),
    "streams_expire": DagFacts(
        when="`retention.schedule`, or by hand",
        stops=NOTHING,
        how_long="the lock is taken for *merge.publish*, and while files are removed",
        command="streams-recovery expire orders --plan",
        more="airflow.md#streams_expire_name",
    ),
    "streams_monitor": DagFacts(
        when="`monitor.schedule` of each application: every five minutes by default; and by hand, for all applications",
        stops=NOTHING,
        how_long="it takes no lock either: savepoints and restores continue",
        command="streams-recovery info orders",
        more="monitoring.md",
    ),
}
