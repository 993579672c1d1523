"""The names of all objects in a repository, and its location. No other module joins paths. docs/format.md draws the tree."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.names import NAME, checked_name
from streams_recovery.core.repository.seal import ADOPTED, PLACES
from streams_recovery.core.words import is_id

_ARTIFACT = re.compile(
    rf"({NAME})/(?:{NAME}\.json|progress/{NAME}/[0-9]{{6}}\.json|progress/{NAME}/tasks/[0-9]{{3}}/[0-9]{{12}}/{NAME}\.json)"
)

# Name of the object that tests whether a store refuses to create an object a second time. It stays, and is no part of any savepoint.
PROBE = "created-once.txt"
_PROBE = re.compile(rf"{NAME}/probe/{re.escape(PROBE)}")


def is_probe(key: str) -> bool:
    """True if a store was asked with this object."""
    return _PROBE.fullmatch(key) is not None


@dataclass(frozen=True, slots=True)
class Layout:
    """Keys of one application's objects, relative to the repository's root; those that end with a slash are prefixes. Names are checked, so no key can leave
    the application's prefix.
    """

    application_id: str

    def __post_init__(self) -> None:
        checked_name("application id", self.application_id)

    def segment(self, tp: TopicPartition, start: int, end: int, attempt: str) -> str:
        """A segment's key. ``attempt`` is unique per task attempt, so a repeated or doubled task never meets an existing object."""
        topic = checked_name("topic", tp.topic)
        return f"{self.application_id}/segments/{topic}/{tp.partition}/{start:020}-{end:020}-{checked_name('attempt', attempt)}.parquet"

    @property
    def range_tables(self) -> str:
        return f"{self.application_id}/ranges/"

    def range_table(self, topic: str, sha256: str) -> str:
        """A table of the ranges of one topic, named by the hash of its bytes."""
        return f"{self.range_tables}{checked_name('topic', topic)}/{checked_name('hash', sha256)}.zst"

    @property
    def keys(self) -> str:
        """Prefix of the wrapped data keys."""
        return f"{self.application_id}/keys/"

    def wrapped_key(self, key_id: str, number: int) -> str:
        """A data key as it was wrapped for the ``number``-th time."""
        return f"{self.keys}{checked_name('key id', key_id)}/{number:012}.json"

    @property
    def savepoints(self) -> str:
        return f"{self.application_id}/savepoints/"

    @property
    def safety(self) -> SafetyLayout:
        """Keys of this application's objects, with safety savepoints for savepoints."""
        return SafetyLayout(self.application_id)

    def manifest(self, savepoint_id: str) -> str:
        """The object whose existence makes a savepoint exist."""
        return f"{self.savepoints}{checked_name('savepoint id', savepoint_id)}/manifest.json.zst"

    @property
    def published_prefix(self) -> str:
        """Prefix of the records of published savepoints."""
        return f"{self.application_id}/published/"

    def published(self, savepoint_id: str) -> str:
        """The record that a savepoint was published: what tells a lost manifest from one that never was."""
        return f"{self.published_prefix}{checked_name('savepoint id', savepoint_id)}.json"

    def detail(self, savepoint_id: str) -> str:
        """A savepoint as people look at it: its topics and partitions, without its ranges."""
        return f"{self.application_id}/details/{checked_name('savepoint id', savepoint_id)}.json"

    @property
    def artifacts(self) -> str:
        """Prefix of the directories of run artifacts, one for each run."""
        return f"{self.application_id}/work/"

    def work(self, run: str, name: str) -> str:
        """Notes that the tasks of one run leave for each other: the cut before its copy, job specifications and results."""
        return f"{self.artifacts}{checked_name('run', run)}/{checked_name('note', name)}.json"

    def run_of(self, key: str) -> str | None:
        """The run whose artifact, or whose jobs' progress, is at ``key``; None for any other key."""
        found = _ARTIFACT.fullmatch(key.removeprefix(self.artifacts)) if key.startswith(self.artifacts) else None
        return found[1] if found is not None else None

    @property
    def locks(self) -> str:
        """Prefix of the numbered lock objects."""
        return f"{self.application_id}/locks/"

    @property
    def holds(self) -> str:
        """Prefix of the numbered hold records."""
        return f"{self.application_id}/holds/"

    @property
    def quiesce_records(self) -> str:
        """Prefix of the numbered records of the application being held still."""
        return f"{self.application_id}/quiesce-records/"

    def journal(self, restore_id: str) -> str:
        """Prefix of the numbered journal entries of one restore."""
        return f"{self.application_id}/restores/{checked_name('restore id', restore_id)}/journal/"

    def report(self, restore_id: str) -> str:
        """The evidence of one restore."""
        return f"{self.application_id}/restores/{checked_name('restore id', restore_id)}/report.json"

    def report_page(self, restore_id: str) -> str:
        """The report of one restore for people."""
        return f"{self.application_id}/restores/{checked_name('restore id', restore_id)}/report.md"

    def outputs_behind(self, restore_id: str) -> str:
        """The records of outputs behind the state that one restore has brought back."""
        return f"{self.application_id}/restores/{checked_name('restore id', restore_id)}/outputs-behind.json"

    @property
    def quarantines(self) -> str:
        return f"{self.application_id}/quarantines/"

    def quarantine(self, restore_id: str) -> str:
        """Prefix of the numbered entries about the later input that one restore has set aside."""
        return f"{self.quarantines}{checked_name('restore id', restore_id)}/"

    @property
    def drills(self) -> str:
        """Prefix of the numbered entries of the application's drills."""
        return f"{self.application_id}/drills/"

    @property
    def slots(self) -> str:
        """Prefix of the numbered entries of slots that intervals took and gave back."""
        return f"{self.application_id}/slots/"

    @property
    def reprocessed(self) -> str:
        """Prefix of the numbered entries of intervals that were processed again."""
        return f"{self.application_id}/reprocessed/"

    @property
    def scheduled_runs(self) -> str:
        """Prefix of the log of runs of an application that is down in between."""
        return f"{self.application_id}/scheduled-runs/"

    @property
    def ownership(self) -> str:
        """Prefix of the numbered records of what the application is to the outputs: who writes them."""
        return f"{self.application_id}/ownership/"

    @property
    def sites(self) -> str:
        """Prefix of the numbered records of the cluster that the application belongs to."""
        return f"{self.application_id}/sites/"

    @property
    def loaded(self) -> str:
        """Prefix of the numbered records of what restores have loaded: how far their producers had come."""
        return f"{self.application_id}/loaded/"

    @property
    def read_up_to(self) -> str:
        """Prefix of the numbered records of how far a clone's input was processed by the application that it replaces."""
        return f"{self.application_id}/read-up-to/"

    @property
    def checks(self) -> str:
        return f"{self.application_id}/checks/"

    def check(self, check_id: str) -> str:
        """Prefix of the numbered verdicts of one check: one, or more when its last step was repeated."""
        return f"{self.checks}{checked_name('check id', check_id)}/"

    @property
    def status(self) -> str:
        """Prefix of the numbered statuses of the application, of which only the newest are kept."""
        return f"{self.application_id}/status/"

    @property
    def alerts(self) -> str:
        """Prefix of the numbered entries of what people were told, of which only the newest are kept."""
        return f"{self.application_id}/alerts/"

    @property
    def inspections(self) -> str:
        """Prefix of the numbered entries of what people had compared and looked up in savepoints, of which only the newest are kept."""
        return f"{self.application_id}/inspections/"

    @property
    def outputs_compared(self) -> str:
        """Prefix of the numbered reports of comparisons of outputs, of which only the newest are kept."""
        return f"{self.application_id}/outputs-compared/"

    @property
    def archive(self) -> str:
        """Prefix of the numbered entries of the continuous archive."""
        return f"{self.application_id}/archive/"

    @property
    def archive_cuts(self) -> str:
        """Prefix of the numbered cuts that the archiver has taken, of which those are kept that a restore to a moment may begin from."""
        return f"{self.application_id}/archive-cuts/"

    @property
    def archiving(self) -> ArchiverLayout:
        """Keys of this application's objects, with the lock of its archiver for the lock of its runs."""
        return ArchiverLayout(self.application_id)

    @property
    def segments(self) -> str:
        return f"{self.application_id}/segments/"

    @property
    def pins(self) -> str:
        """Prefix of the numbered words of people on single savepoints."""
        return f"{self.application_id}/pins/"

    @property
    def adopted(self) -> str:
        """Prefix of the numbered entries of records without a seal that a person vouches for."""
        return f"{self.application_id}/{ADOPTED}"

    @property
    def announcements(self) -> str:
        """Prefix of the numbered announcements of when expiry begins to delete."""
        return f"{self.application_id}/announcements/"

    @property
    def retired_prefix(self) -> str:
        """Prefix of the manifests of savepoints that have expired."""
        return f"{self.application_id}/expired/"

    def retired(self, savepoint_id: str, at: int) -> str:
        """A copy of an expired savepoint's manifest, kept as long as its files may still be wanted back. ``at`` is when it was about to expire."""
        return f"{self.retired_prefix}{checked_name('savepoint id', savepoint_id)}/manifest.{at:020}.json.zst"

    def retired_at(self, key: str) -> int | None:
        """The moment in the key of such a copy, None for any other key."""
        found = re.fullmatch(r"([^/]+)/manifest\.([0-9]{20})\.json\.zst", key.removeprefix(self.retired_prefix))
        return int(found[2]) if found and is_id(found[1]) else None

    @property
    def offset_snapshots(self) -> str:
        return f"{self.application_id}/offsets/"

    def offset_snapshot(self, snapshot_id: str) -> str:
        """Prefix of the numbered versions of one offset snapshot: one, or more when a step of its savepoint was repeated."""
        return f"{self.offset_snapshots}{checked_name('snapshot id', snapshot_id)}/"

    def table(self, savepoint_id: str, store: str, run: str, part: str) -> str:
        """A part of a store's table that a person asked for. Nothing in the repository needs it."""
        names = checked_name("savepoint id", savepoint_id), checked_name("store", store), checked_name("run", run)
        return f"{self.application_id}/tables/{'/'.join(names)}/part-{checked_name('part', part)}.parquet"

    @property
    def probe(self) -> str:
        """The object that a bucket is asked with whether it creates an object only where there is none."""
        return f"{self.application_id}/probe/{PROBE}"

    @property
    def places(self) -> str:
        """Prefix of the records of which places hold this repository."""
        return f"{self.application_id}/{PLACES}/"

    @property
    def repository_id(self) -> str:
        """The object that is the same in all places of one repository, and that no other repository has."""
        return f"{self.places}repository.json"

    @property
    def moved(self) -> str:
        """The record that the repository is at another place now. Nothing is written here any more."""
        return f"{self.application_id}/moved/place.json"

    def filled(self, digest: str) -> str:
        """The record, in the first place, that the second place whose address has this digest is filled from here."""
        return f"{self.places}filled-{checked_name('digest', digest)}.json"

    def proven(self, savepoint_id: str) -> str:
        """The record, in a second place, that a savepoint was proven there with all that it names."""
        return f"{self.places}proven/{checked_name('savepoint id', savepoint_id)}.json"

    @property
    def restores(self) -> str:
        return f"{self.application_id}/restores/"


class SafetyLayout(Layout):
    """Safety savepoints stand apart, so that none is ever a default for restores, a parent of a savepoint, or one that retention counts."""

    __slots__ = ()

    @property
    def savepoints(self) -> str:
        return f"{self.application_id}/safety/"


class ArchiverLayout(Layout):
    """An archiver has a lock of its own: it goes on while savepoints are taken and restores run."""

    __slots__ = ()

    @property
    def locks(self) -> str:
        return f"{self.application_id}/archive-locks/"


Backend = Literal["filesystem", "s3", "gcs", "azure", "memory"]
Encryption = Literal["AES256", "aws:kms"]
# How people write the address of a bucket.
SCHEMES: Final[Mapping[Backend, str]] = {"s3": "s3", "gcs": "gs", "azure": "az"}
_AZURE: Final = "core.windows.net"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLocation:
    """A directory (``path``) or a bucket (``bucket``, ``prefix``, ``region``, ``endpoint``; on Azure the container of an ``account``): enough to open a
    repository together with credentials, and nothing secret. Travels as JSON in a Spark job's arguments.

    ``memory`` lives and dies with one Repository object and is for tests. ``endpoint`` None means the cloud's own. ``ca_file`` has the certificates, as PEM,
    of the authorities that signed the server's; with None the system's own are used. ``sse`` is how the server is
    told to encrypt, None leaves it to the bucket; ``kms_key_id`` None means the account's own key.
    """

    backend: Backend
    path: str | None = None
    account: str | None = None
    bucket: str | None = None
    prefix: str = ""
    region: str | None = None
    endpoint: str | None = None
    path_style: bool = False
    allow_http: bool = False
    ca_file: str | None = None
    sse: Encryption | None = None
    kms_key_id: str | None = None

    def __str__(self) -> str:
        if self.bucket is None:
            return self.path or self.backend
        place = "/".join(name for name in (self.bucket, self.prefix) if name)
        if self.backend == "azure":
            # No shorter address has the account.
            return f"{(self.endpoint or f'https://{self.account}.blob.{_AZURE}').rstrip('/')}/{place}"
        return f"{SCHEMES[self.backend]}://{place}" + (f" at {self.endpoint}" if self.endpoint else "")


def overlap(one: StorageLocation, other: StorageLocation) -> str | None:
    """The reason why two repositories are not apart, by their addresses; None when these say that they are."""
    if one.backend != other.backend:
        return None
    if one.backend == "filesystem":
        roots = [tuple(part for part in posixpath.normpath(str(place.path)).split("/") if part) for place in (one, other)]
    else:
        if any(
            (getattr(one, name) or "").rstrip("/") != (getattr(other, name) or "").rstrip("/") for name in ("account", "bucket", "endpoint")
        ):
            return None
        roots = [tuple(part for part in place.prefix.split("/") if part) for place in (one, other)]
    if roots[0] == roots[1]:
        return f"{other} is the repository itself"
    shorter, longer = sorted(roots, key=len)
    return f"{one} and {other} are one inside the other" if longer[: len(shorter)] == shorter else None


def place_in(address: str) -> dict[str, str]:
    """The keys ``backend``, ``account``, ``bucket`` and ``prefix`` that an address has: ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``az://container/prefix``
    or ``https://account.blob.core.windows.net/container/prefix``. One in another cloud of Azure's has its ``endpoint`` too. A key that it does not have is left
    out. Raises ``ValueError`` for another address.
    """
    parts = urlsplit(address)
    host, _, zone = parts.netloc.partition(".blob.")
    names = [name for name in parts.path.split("/") if name]
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("an address of a bucket has no user, query or fragment: keys belong into a connection")
    if parts.scheme == "https" and zone:
        found = {"backend": "azure", "account": host, "bucket": next(iter(names), ""), "prefix": "/".join(names[1:])}
        # Else an account of the same name in the public cloud would be asked, with these credentials.
        found |= {} if zone == _AZURE else {"endpoint": f"https://{parts.netloc}"}
    elif backend := next((kind for kind, scheme in SCHEMES.items() if scheme == parts.scheme), None):
        found = {"backend": backend, "bucket": parts.netloc, "prefix": "/".join(names)}
    else:
        raise ValueError(
            f"{parts.scheme}:// is no address of a bucket: they begin with {', '.join(f'{one}://' for one in SCHEMES.values())}"
        )
    return {name: value for name, value in found.items() if value}
