"""The errors of this project, grouped by how the caller should react.

    RecoveryError
    ├── TransientError        the same call may succeed later: Airflow retries it
    │   ├── BrokerUnavailable
    │   ├── RepositoryUnavailable
    │   ├── OffsetsUnstable
    │   ├── ApplicationNotReady
    │   ├── ControlPlaneUnavailable
    │   ├── KeyServiceUnavailable
    │   ├── SparkJobFailed
    │   └── PrefixDiffers
    └── PermanentError        the same call will fail again: Airflow fails the task at once
        ├── ConfigInvalid
        │   └── KeyUnavailable
        ├── NoRoom
        ├── StoreUnsuitable
        ├── VersionFailed
        ├── Refused           a precondition does not hold; nothing was changed
        │   ├── NotFound
        │   ├── LockHeld
        │   ├── LockLost
        │   ├── ApplicationRunning (UnknownMembers: core.group_members)
        │   ├── ScaledByAnother
        │   ├── ManagedByAnother
        │   ├── TargetNotEmpty
        │   ├── PlanChanged
        │   ├── NotExact
        │   └── StateDamaged
        └── Damaged           stored or loaded data is not what it should be
            ├── OffsetsGone
            ├── GuardLost
            ├── EntryUnreadable
            ├── Altered
            └── Forged

Every error has its facts as attributes, and its text ends with the next step. Errors without a separate class use ``Refused`` or ``Damaged``
directly. ``exit_code`` is the exit code of the command line.
"""

from __future__ import annotations

import errno
import os
from typing import ClassVar, Final, Self

from streams_recovery.core.escaping import visible, visible_lines
from streams_recovery.core.masking import masked

# Every exit code of the command line, and its meaning. ``verify`` has one for each cause: see Cause.
EXIT_CODES: Final = (
    ("0", "done"),
    ("1", "an unexpected error; its traceback is on stderr. Or stdout took nothing more"),
    ("2", "configuration, connection, rights, a full disk or usage: correct it"),
    ("3", "refused: topics, offsets and state are as they were; what a run had stopped was started again"),
    ("4", "what was named does not exist"),
    ("5", "another run holds the application's lock"),
    ("6", "something stored is damaged"),
    ("7", "a broker, the repository, Spark or the application did not answer: try again"),
    ("8", "`expire`: some objects could not be removed, or nobody can tell whether they are needed"),
    ("9", "`state diff`, `state get --ask`, `compare-outputs`: something is different; `init --update`: the file lacks something"),
    (
        "10",
        "`state diff`, `compare-outputs`: nothing was compared, or nothing of one output; `state get --ask`: the two cannot be compared",
    ),
    ("11", "`compatible`: topics are orphaned"),
    ("12", "`compatible`: stores are to be renamed"),
    ("13", "`compatible`: state is lost"),
    ("14", "`upgrade --in-place`: the new version failed; the message says whether it was taken back"),
    ("15", "`compatible`: whether a store goes on cannot be told; a person must look (`--allow-doubt`)"),
    (
        "16",
        "a restore failed half way, for whatever reason: the application is down, or not whole; the message has the command that goes on",
    ),
    ("20 to 29", "`verify`: what is wrong, see docs/command-line.md"),
)


# Of a run that leaves a restore half way, whatever its error: who reads the code of that alone would begin again, or start the application.
HALF_WAY: Final = 16


def without_secret_causes(error: BaseException) -> None:
    """Cut from ``error`` the first cause whose text has a secret, and all behind it: a traceback would show it."""
    shown: BaseException | None = error
    while shown is not None:
        cause = shown.__cause__ or shown.__context__
        if cause is not None and masked(str(cause)) != str(cause):
            shown.__cause__ = shown.__context__ = None
            return
        shown = cause


class RecoveryError(Exception):
    """Base class of all errors that this project raises on purpose. ``facts`` are the values that an operator needs: topic, partition, offsets, path.
    ``commands`` are complete commands to run next, each shown on its own line.
    """

    exit_code: int = 1
    # Whatever an error quotes, it is shown on one line, in a log, in an alert and on a page.
    _own_lines: ClassVar[bool] = False

    def __init__(self, reason: str, *, next_step: str, **facts: object) -> None:
        # Here, because every answer of a peer that people get to see is in one of these. Before it is escaped: then a secret would look otherwise.
        reason = masked(reason).rstrip(".")
        self.reason = visible_lines(reason) if self._own_lines else visible(reason)
        self.next_step = visible(masked(next_step))
        self.commands: tuple[str, ...] = ()
        self.facts = facts
        super().__init__(self.reason)

    def then(self, *commands: str) -> Self:
        """Add the commands to run next, and return this error."""
        self.commands = tuple(map(visible, commands))
        return self

    def __str__(self) -> str:
        return "\n    ".join([f"{self.reason}. Next: {self.next_step}", *self.commands])

    def __reduce__(self) -> tuple[object, ...]:
        # The default rebuilds from ``args`` alone and would lose next_step and facts on the way back from a worker process.
        return (_rebuild, (type(self), self.reason, self.next_step, self.commands, self.facts))


def _rebuild(kind: type[RecoveryError], reason: str, next_step: str, commands: tuple[str, ...], facts: dict[str, object]) -> RecoveryError:
    return kind(reason, next_step=next_step, **facts).then(*commands)


class TransientError(RecoveryError):
    """Raised when the same call may succeed later."""

    exit_code = 7


class BrokerUnavailable(TransientError):
    """Raised when no broker of the cluster answers in time."""


class RepositoryUnavailable(TransientError):
    """Raised when the object store does not answer, or answers that it is busy."""


class KeyServiceUnavailable(TransientError):
    """Raised when the service of a key-encryption key does not answer, or answers that it is busy."""


class OffsetsUnstable(TransientError):
    """Raised when offsets did not settle within the time allowed, because of an open transaction or another writer."""


class ApplicationNotReady(TransientError):
    """Raised when an instance, a topic, or another run is not yet in the state that is waited for."""


class ControlPlaneUnavailable(TransientError):
    """Raised when the API server of Kubernetes does not answer, or answers that it is busy. ``facts`` have the HTTP ``status``, None without an answer."""


class SparkJobFailed(TransientError):
    """Raised when a Spark job ended without leaving its result. Its output, if any, is never referenced."""


class PrefixDiffers(TransientError):
    """Raised when the records that an interrupted load left in a partition are not the first records of the plan. The next attempt creates the topic
    again. If other producers write to the topic, it is refused instead.
    """


class PermanentError(RecoveryError):
    """Raised when the same call would fail again."""

    exit_code = 3


class ConfigInvalid(PermanentError):
    """Raised when a configuration file, parameter or connection cannot be used as written. Each mistake of a file is a line of its own."""

    exit_code = 2
    _own_lines = True


class KeyUnavailable(ConfigInvalid):
    """Raised when a key that encrypts records cannot be had: its key-encryption key is missing, disabled, or may not be used. Nothing was changed. ``facts``
    have the ``key_id`` of a data key.
    """


class NoRoom(PermanentError):
    """Raised when a disk is full, a quota is used up, or a file may not grow further. Nothing half written was left."""

    exit_code = 2


# Errors that a run without an end waits out: a person makes room meanwhile, and nobody would start the run again.
WAITED_OUT: Final = (TransientError, NoRoom)


class StoreUnsuitable(PermanentError):
    """Raised when a store does not do what a repository is built on: to create an object only where there is none, with a checksum. ``facts`` have the
    ``key`` that it was tried with.
    """

    exit_code = 2


class Refused(PermanentError):
    """Raised when a precondition does not hold. Nothing was changed."""


class NotFound(Refused):
    """Raised when an application, savepoint, topic or connection that was named does not exist."""

    exit_code = 4


class VersionFailed(PermanentError):
    """Raised when a new version of an application does not do its work. ``facts`` tell what was seen."""

    exit_code = 14


class LockHeld(Refused):
    """Raised when another run holds the application's lock."""

    exit_code = 5


class LockLost(Refused):
    """Raised when a run finds that its lock was released, expired or taken over while it worked."""

    exit_code = 5


class ApplicationRunning(Refused):
    """Raised when instances or group members are still running and must be stopped."""


class ScaledByAnother(Refused):
    """Raised when another client of Kubernetes scales an application up while it is being stopped. ``facts`` have the ``manager``."""


class ManagedByAnother(Refused):
    """Raised when a tool would write an application's replica count back, unless it is suspended first. ``facts`` have the ``owners``."""


class TargetNotEmpty(Refused):
    """Raised when a topic that is to be loaded already holds records."""


class PlanChanged(Refused):
    """Raised when the plan made under the lock differs from the approved plan."""


class NotExact(Refused):
    """Raised when a cut could not be proven exact and the policy demands it."""


class StateDamaged(Refused):
    """Raised when an application's state was lost, replaced or truncated, and no restore did that. Names the topics."""


class Damaged(PermanentError):
    """Raised when stored or loaded data does not match its description. Names the file or the topic-partition."""

    exit_code = 6


class OffsetsGone(Damaged):
    """Raised when records were deleted from a log before, or while, they were read."""


class GuardLost(Damaged):
    """Raised when the compaction guard of a log was removed before the copy finished: the copy may lack records."""


class EntryUnreadable(Damaged):
    """Raised for an unreadable entry of a log in the repository. ``facts`` contain its ``key``."""


class Altered(Damaged):
    """Raised when a stored plan, specification or result differs from what this run wrote, or from what was approved. The stored object was not used."""


class Forged(Damaged):
    """Raised for a record of a sealed repository without a seal, or with a seal that does not belong to it. It was not used. ``facts`` have its ``key``."""


NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NOT_ALLOWED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def lasting(number: int | None) -> type[NoRoom | ConfigInvalid] | None:
    """The class for an error of the operating system that stays until a person does something about it; None for one that may pass. All code that makes an
    error of this module out of an ``OSError`` asks here.
    """
    if number in NO_ROOM:
        return NoRoom
    return ConfigInvalid if number in NOT_ALLOWED else None


def tells_of_no_room(log: str) -> bool:
    """True for the log of a program that ended because there was no room, in the words of the operating system, which are Java's too."""
    return any(os.strerror(number) in log for number in NO_ROOM)


def of_machine(error: OSError) -> NoRoom | ConfigInvalid | None:
    """The error to raise for one of this machine's file systems that nobody has explained; None for one that may pass."""
    kind = lasting(error.errno)
    # Without a file it may be a firewall that does not permit a connection.
    if kind is None or (error.errno in (errno.EACCES, errno.EPERM) and error.filename is None):
        return None
    where = str(error.filename or "a file of this process")
    step = "make room there" if kind is NoRoom else "give this user the right to write there"
    return kind(f"{where}: {error.strerror}", next_step=f"{step}, then run again; temporary files are where TMPDIR says", path=where)
