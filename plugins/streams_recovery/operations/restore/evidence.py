"""The evidence of restores as it is stored: kept beside a page for people, read again, and asked for what made the state and how long it took."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from streams_recovery.core import codec
from streams_recovery.core.errors import Altered, ConfigInvalid, Damaged, Forged, NotFound
from streams_recovery.core.escaping import Markdown
from streams_recovery.core.repository.journal import RestoreScope
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.seal import SealKeys, split_seal
from streams_recovery.core.restore.estimate import NEWEST, Timed
from streams_recovery.core.restore.report import RestoreReport, report_page
from streams_recovery.core.words import LATEST, is_id
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.json_object import create_value
from streams_recovery.storage.repository import AlreadyExists, Repository

_KNOWN = 5


def keep_evidence(repository: Repository, layout: Layout, report: RestoreReport) -> RestoreReport:
    """Write the evidence and its page, and return what is kept: an attempt that died right here may have written it already. Raises ``Altered`` when what is
    there says something else.
    """
    key = layout.report(report.restore_id)
    with contextlib.suppress(AlreadyExists):
        create_value(repository, key, report)
    kept, sha256 = _read(repository, key)
    if codec.encode(_lasting(kept)) != codec.encode(_lasting(report)):
        raise Altered(
            f"{key} is not the evidence of this restore: it was not written by this run",
            next_step="do not rely on it; find out who can write to this repository",
            key=key,
        )
    with contextlib.suppress(AlreadyExists):
        repository.create(layout.report_page(report.restore_id), report_page(kept, sha256).encode())
    return kept


def _lasting(report: RestoreReport) -> RestoreReport:
    """Without what may be another a moment later."""
    return replace(report, finished_at=0, seconds=None, still_held=(), expiring=(), manifests={}, watched=None)


def evidence(recovery: RecoveryContext, restore_id: str = LATEST) -> tuple[RestoreReport, Markdown]:
    """The evidence of one restore, or of the last one that has any, and its page. Raises ``NotFound``, and ``Damaged`` when JSON and page do not
    belong together.
    """
    known = reports(recovery.repository, recovery.layout)
    chosen = known[-1] if known and restore_id == LATEST else restore_id
    if chosen not in known:
        raise NotFound(
            f"there is no evidence of restore {restore_id} of {recovery.application_id}; restores that have some: {', '.join(known[-_KNOWN:]) or 'none'}",
            next_step="choose one of those; a restore that was not finished has none",
            restore=restore_id,
        )
    report, sha256 = _read(recovery.repository, recovery.layout.report(chosen))
    shown = report_page(report, sha256)
    if recovery.repository.get(recovery.layout.report_page(chosen)).decode(errors="replace") != shown:
        raise Damaged(
            f"the page of restore {chosen} is not that of its report: one of the two was changed",
            next_step="find out who wrote there; verify what is restored against the savepoint",
            restore=chosen,
        )
    return report, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEvidence:
    """The newest restore of the whole state, None without one, and those of single topics in place since then, oldest first. Copies under other names are of
    no concern to the application.
    """

    whole: RestoreReport | None
    alone: tuple[RestoreReport, ...]


def state_evidence(recovery: RecoveryContext) -> StateEvidence:
    """The evidence of restores that made the application's state. Raises ``Damaged`` for evidence that was changed."""
    alone: list[RestoreReport] = []
    for restore_id in reversed(reports(recovery.repository, recovery.layout)):
        report, _ = evidence(recovery, restore_id)
        if report.part.scope is RestoreScope.STATE:
            return StateEvidence(whole=report, alone=tuple(reversed(alone)))
        alone += [report] if report.part.scope is RestoreScope.TOPICS else []
    return StateEvidence(whole=None, alone=tuple(reversed(alone)))


def checked_evidence(path: Path, public_keys: tuple[str, ...]) -> tuple[RestoreReport, Markdown]:
    """The evidence in a copy of a ``report.json``, and its page: proven by its seal, without any access to the repository. Raises ``NotFound``, ``Forged``
    and ``Damaged``, and ``ConfigInvalid`` for what is no public key.
    """
    # Slow to import, and only this function needs it.
    from streams_recovery.storage.seals import Seals  # noqa: PLC0415

    if not public_keys:
        raise ConfigInvalid(
            "no public key is named, so nothing can be checked", next_step="add --public-key, as in storage.seal.public_keys"
        )
    try:
        found = split_seal(path.read_bytes())
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}", next_step="name a copy of a report.json", path=str(path)) from None
    report = codec.loads(RestoreReport, found.content, where=str(path))
    key = Layout(report.application_id).report(report.restore_id)
    try:
        Seals(SealKeys(public=public_keys), lambda _: {}).check(key, found)
    except Forged as error:
        raise Forged(
            f"{path} proves nothing: {error.facts['why']}",
            next_step="do not rely on it; ask whoever owns the repository for a copy of its report.json as it is stored, and for all public keys",
            key=key,
            why=error.facts["why"],
        ) from None
    return report, report_page(report, hashlib.sha256(found.content).hexdigest())


def reports(repository: Repository, layout: Layout) -> list[str]:
    """Ids of the restores that have evidence, oldest first."""
    ids = {key.removeprefix(layout.restores).split("/")[0] for key in repository.keys(layout.restores) if key.endswith("/report.md")}
    return sorted(filter(is_id, ids))


def earlier_restores(recovery: RecoveryContext) -> list[Timed]:
    """The sizes and times of the newest restores and drills of this application, oldest first. Evidence without figures is passed over."""
    drill = recovery.config.drill
    layouts = [recovery.layout, *([Layout(drill.application_id)] if drill is not None else [])]
    newest = sorted(((one, layout) for layout in layouts for one in reports(recovery.repository, layout)), key=lambda found: found[0])
    found = []
    for restore_id, layout in newest[-NEWEST:]:
        # Evidence is for people. An unreadable file of it is no reason not to restore.
        with contextlib.suppress(Damaged, NotFound):
            report, _ = _read(recovery.repository, layout.report(restore_id))
            if report.seconds is not None:
                found.append(Timed(sizes=report.sizes, seconds=report.seconds))
    return found


def _read(repository: Repository, key: str) -> tuple[RestoreReport, str]:
    data = repository.get(key)
    return codec.loads(RestoreReport, data, where=key), hashlib.sha256(data).hexdigest()
