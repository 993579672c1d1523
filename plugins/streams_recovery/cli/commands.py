"""Every command of the program: the panel of the help that it stands in, what it does in one line, and the function that does it.

A command's module is loaded when the command is called, or asked for its own help. The help of the program and the completion of a shell are made of
this table, and load none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.panels import Panel


@dataclass(frozen=True, slots=True)
class Command:
    """``function`` is ``<module>:<name>`` beside this module. ``line`` is the first sentence of its docstring. ``made_as`` is the class of a command that
    parses its words in a way of its own, written as ``function`` is.
    """

    name: str
    function: str
    line: str
    made_as: str = ""


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Commands that share their first word."""

    name: str
    line: str
    commands: tuple[Command, ...]


SAVEPOINTS: Final = CommandGroup(
    "savepoints",
    "What is in the repository.",
    (
        Command("list", "savepoints:list_savepoints", "List an application's savepoints, newest last."),
        Command("show", "savepoints:show_savepoint", "Print a savepoint's manifest as JSON."),
        Command("keep", "maintenance:keep", "Keep a savepoint whatever the rules say."),
        Command(
            "release",
            "maintenance:release",
            "Leave a savepoint that was kept to the rules again, from retention.grace_days days later on.",
        ),
    ),
)
OFFSETS: Final = CommandGroup(
    "offsets",
    "Offsets of consumer groups: keep them, and go back.",
    (
        Command("snapshot", "offsets:snapshot_offsets", "Keep what groups have committed now, on every topic."),
        Command("show", "offsets:show_offsets", "Print a snapshot as JSON, or the ids of all, newest last."),
        Command("restore", "offsets:restore_offsets", "Take a group's offsets back to a snapshot."),
    ),
)
STORAGE: Final = CommandGroup(
    "storage",
    "The place of the repository.",
    (Command("move", "maintenance:move", "Make `storage.mirror` the place of the repository, and leave the old one."),),
)
GROUPS: Final = CommandGroup(
    "groups",
    "Consumer groups of the cluster: look at them, reset and delete their offsets.",
    (
        Command("list", "groups:list_groups", "List the groups of the cluster with type and state."),
        Command(
            "describe",
            "groups:describe_groups",
            "Show groups as they are now: type, state, members, and how many offsets they are behind in each partition.",
        ),
        Command("reset", "groups:reset_groups", "Set the offsets of groups, as Kafka's own tool does."),
        Command("delete-offsets", "groups:delete_offsets", "Delete offsets of groups, and keep the groups."),
        Command("delete", "groups:delete_groups", "Delete groups with all their offsets."),
        Command(
            "export", "groups:export_groups", "Print what groups have committed as CSV, for reset --from-file and for Kafka's own tools."
        ),
    ),
)
STATE: Final = CommandGroup(
    "state",
    "Stores as tables, in savepoints and now: a key, a whole store, what differs, an edited store; and records of topics.",
    (
        Command(
            "get",
            "state:get_key",
            "Show what a store has for a key, in a savepoint or now, and with --ask what the running application answers.",
        ),
        Command(
            "show",
            "state:show_store",
            "Show a store as a table: the newest value of each key, with keys, windows and values decoded as configured.",
        ),
        Command("diff", "state:diff_stores", "Compare a store at two moments, key by key."),
        Command("records", "state:show_records", "Show records of a topic as they are, on the cluster now or in a savepoint."),
        Command(
            "write",
            "state:write_store",
            "Make a savepoint in which a store holds an edited table, and everything else is as in the savepoint named.",
        ),
    ),
)
KEYS: Final = CommandGroup(
    "keys",
    "Keys of encrypted records: look at them, and wrap them again.",
    (
        Command("list", "keys:list_keys", "List an application's data keys, what wraps each, and whether it can be unwrapped now."),
        Command("rotate", "keys:rotate_keys", "Wrap every data key again with the first key of `storage.encryption.keys`."),
        Command("show", "keys:show_key", "Print a data key in base64, for DuckDB and other readers."),
    ),
)
PANELS: Final[Mapping[Panel, tuple[Command | CommandGroup, ...]]] = {
    Panel.FIRST: (
        Command("init", "init:init", "Write the configuration of an application: what its cluster shows, and what you answer."),
        Command("preflight", "look:preflight", "Look for missing rights and unsafe settings."),
        Command("backup", "backup:backup", "Take a savepoint now."),
        Command("info", "info:info", "Show what there is of an application: status, newest savepoint, objective, sizes."),
        SAVEPOINTS,
        Command("restore", "restore:restore", "Restore an application in place."),
    ),
    Panel.EVERY_DAY: (
        Command("archive", "backup:archive", "Archive inputs and globals all the time, every archive.interval, until it is stopped."),
        Command("monitor", "monitor:monitor", "Look at applications as the monitor does, store what is seen, and print what is found."),
        Command("verify", "maintenance:verify", "Check that savepoints are still what was written."),
        Command(
            "mirror",
            "maintenance:mirror",
            "Copy what is missing in `storage.mirror`, the second place of the repository, and read it there.",
        ),
        Command("expire", "maintenance:expire", "Expire savepoints that no rule of `retention` keeps."),
        Command("compatible", "look:compatible", "Say whether a new version of an application can go on with the state of a savepoint."),
        Command(
            "upgrade",
            "clone:upgrade",
            "Stop the application that APP is a clone of for an exact savepoint, and start APP from it with the real outputs.",
        ),
        GROUPS,
        OFFSETS,
    ),
    Panel.WAYS_BACK: (
        Command("undo", "restore:undo", "Bring back what was there before a restore, from its safety savepoint."),
        Command("resume", "restore:resume", "Go on with a restore that failed after it had begun to replace topics."),
        Command("restore-topics", "rebuild:restore_topics", "Bring single inputs, outputs or globals back from a savepoint."),
        Command(
            "rebuild",
            "rebuild:rebuild",
            "Delete the application's internal topics and let it build its state again from the input.",
            made_as="rebuild:ResetToolCommand",
        ),
        Command(
            "rescale",
            "restore:rescale",
            "Give topics other numbers of partitions, with all state and unread input; grow or shrink.",
        ),
        Command(
            "failover",
            "restore:failover",
            "Move an application to another site, with the state of a savepoint; home again with `--to primary`.",
        ),
        Command(
            "append-quarantine",
            "rebuild:append_quarantine",
            "Append input again that a restore to a moment has taken out of the inputs in place.",
        ),
    ),
    Panel.TRYING: (
        Command("drill", "drill:drill", "Try a restore into an application of its own, measure it, and remove it again."),
        Command("drills", "drill:drills", "List an application's drills with what they measured, newest last."),
        Command(
            "reprocess",
            "drill:reprocess",
            "Process an interval of the past again, in an application of its own that is removed afterwards.",
        ),
        Command("reprocessed", "drill:reprocessed", "List the intervals that were processed again, newest last."),
        Command(
            "clone",
            "clone:clone",
            "Give APP, a clone, the state of the application that it is a clone of, and start it beside that one.",
        ),
        Command(
            "compare-outputs",
            "outputs:compare_outputs",
            "Compare the real outputs with those of APP, a clone, or with the results of an interval of APP, key by key.",
        ),
        Command(
            "cut-over",
            "clone:cut_over",
            "Let APP, a clone that is caught up, write the real outputs, and stop the application that it is a clone of.",
        ),
        Command("roll-back", "clone:roll_back", "Stop APP, a clone, and start the application that it is a clone of where it stopped."),
    ),
    Panel.LOOKING: (
        Command("check-runs", "check_runs:check_runs", "Play what runs an application, and say field by field what was answered wrongly."),
        Command("advise", "look:advise", "Say what makes a recovery slow or impossible, with the commands that change it."),
        Command("evidence", "look:evidence", "Print what a restore compared, and the hashes of it."),
        Command(
            "sites", "sites:sites", "List the sites of an application: where it belongs, fences, and what the monitor last found there."
        ),
        STATE,
        Command(
            "paths",
            "paths:paths",
            "Where DAGs, Spark jobs and example configurations are, and where the configurations of your applications are looked for.",
        ),
    ),
    Panel.UPKEEP: (
        Command(
            "compact",
            "maintenance:compact",
            "Compact a savepoint, to the newest record of each key or to fewer files, as a new savepoint of the same moment.",
        ),
        KEYS,
        Command("seal", "maintenance:seal", "Vouch for the records of a repository that are older than its seals."),
        Command(
            "seal-key",
            "maintenance:seal_key",
            "Make a pair of keys for `storage.seal`: the private one into a file that only you can read, the public one printed.",
        ),
        STORAGE,
        Command(
            "undelete",
            "maintenance:undelete",
            "Bring back savepoints that were deleted from a bucket with versions, or overwritten in it.",
        ),
        Command("unlock", "maintenance:unlock", "Take an application's lock, or that of its archive, from a run that is dead."),
        Command(
            "dismiss", "maintenance:dismiss", "Declare a failed restore over, because the application was brought back in another way."
        ),
    ),
}
