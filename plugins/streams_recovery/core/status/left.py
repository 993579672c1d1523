"""What a call that was ended by Ctrl-C or SIGTERM leaves: the restore that is half way, the instances, the topics and the lock, and what to run next."""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.core.words import command, first_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The facts, by what is on record and by what runs. ``restore`` is the id of a restore that is half way, ``phase`` the last one that its journal has.
    ``instances`` are sentences; ``standing`` names those that a run has left paused or stopped. ``held`` are topics whose settings are still those of a run,
    ``lock_of`` is the owner of the lock, and ``unknown`` says what could not be asked.
    """

    restore: str | None = None
    phase: str = ""
    instances: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    lock_of: str | None = None
    unknown: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """True when all is known, and all is given back."""
        return self.restore is None and not (self.standing or self.held or self.unknown) and self.lock_of is None


def left_text(left: Left) -> tuple[str, ...]:
    """The sentences for a person, one a line."""
    restore = (f"restore {left.restore} is half way, after phase {left.phase}",) if left.restore else ()
    standing = (f"paused or stopped by a run, and not brought back: {first_names(left.standing)}",) if left.standing else ()
    held = f"{len(left.held)} topics are still held: {first_names(left.held)}" if left.held else "no topic is held"
    lock = f"the lock is still that of {left.lock_of}" if left.lock_of else "the lock is free"
    return (*restore, *left.instances, *standing, held, lock, *(f"not known: {one}" for one in left.unknown))


def next_commands(name: str, left: Left, again: str) -> tuple[str, str]:
    """What the command to run next does, and that command. ``name`` is the configured one, ``again`` the call that was ended."""
    if left.restore is not None:
        return "go on with the restore", command("resume", name, left.restore)
    if left.standing or left.held or left.lock_of:
        return "the next savepoint gives back what is held, and brings back what is paused or stopped", command("backup", name)
    return ("look what there is", command("info", name)) if left.unknown else ("begin again", again)
