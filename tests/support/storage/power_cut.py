"""A disk that forgets: what a process did to a directory is recorded, and made again as a power cut may leave it."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

# What a cut keeps besides what was synced, for each directory: how many of the later changes there, of those that happened.
Kept = Callable[[Path, int], int]


class Killed(BaseException):
    """The process got SIGKILL: nothing that it would still do happens."""


@dataclass(frozen=True)
class Change:
    """A name in a directory: from now on that file or directory, None for none."""

    directory: Path
    name: str
    inode: int | None


@dataclass(frozen=True)
class Synced:
    """What was made durable: the bytes of a file, or, with None, the names in a directory."""

    inode: int
    directory: Path | None
    content: bytes | None


@dataclass
class Disk:
    """Everything that happened below ``root``, in order. After ``dies_at`` of these, nothing happens any more."""

    root: Path
    events: list[Change | Synced] = field(default_factory=list)
    directories: set[int] = field(default_factory=set)
    dies_at: int | None = None
    # How often an inode was used: that of a removed file is used again, and is another file then.
    uses: dict[int, int] = field(default_factory=dict)

    @property
    def now(self) -> int:
        """How much has happened."""
        return len(self.events)

    def identity(self, inode: int) -> int:
        """A number of this file or directory that no other one gets."""
        return inode * 1_000_000 + self.uses.get(inode, 0)

    def note(self, event: Change | Synced) -> None:
        self.events.append(event)

    def may_act(self) -> None:
        if self.dies_at is not None and self.now >= self.dies_at:
            raise Killed

    def after_cut(self, at: int, kept: Kept, target: Path) -> None:
        """Make at ``target`` what is there when the power is cut after ``at`` events. A file that was not synced is empty. Names in a directory are lost
        from the newest on, back to the last sync at most.
        """
        names: dict[Path, list[Change]] = {}
        durable: dict[Path, int] = {}
        contents: dict[int, bytes] = {}
        for event in self.events[:at]:
            if isinstance(event, Change):
                names.setdefault(event.directory, []).append(event)
            elif event.directory is not None:
                durable[event.directory] = len(names.get(event.directory, []))
            else:
                contents[event.inode] = event.content or b""

        def make(directory: Path, place: Path) -> None:
            place.mkdir()
            changes, synced = names.get(directory, []), durable.get(directory, 0)
            there: dict[str, int | None] = {}
            for change in changes[: synced + kept(directory, len(changes) - synced)]:
                there[change.name] = change.inode
            for name, inode in there.items():
                if inode in self.directories:
                    make(directory / name, place / name)
                elif inode is not None:
                    (place / name).write_bytes(contents.get(inode, b""))

        make(self.root, target)

    def catch_up(self) -> None:
        """Record what is different below ``root``: what a process had done when it was killed, and not yet recorded."""
        known: dict[Path, int | None] = {}
        for event in self.events:
            if isinstance(event, Change):
                known[event.directory / event.name] = event.inode
        there = set(self.root.rglob("*"))
        for path in sorted(there - {path for path, inode in known.items() if inode is not None}):
            inode = path.lstat().st_ino
            if self.identity(inode) not in known.values():
                self.uses[inode] = self.uses.get(inode, 0) + 1
            self._named(path)
        for path in sorted(path for path, inode in known.items() if inode is not None and path not in there):
            self._named(path)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """While this lasts, calls of this process that change something below ``root`` are recorded."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("open", "mkdir", "rmdir", "link", "unlink", "remove", "rename", "replace", "fsync"):
                patch.setattr(os, name, getattr(self, f"_{name}")(getattr(os, name)))
            patch.setattr(io, "open", self._open_by_mode(io.open))
            yield

    def _ours(self, path: Any) -> bool:
        return not isinstance(path, int) and Path(path).is_relative_to(self.root) and Path(path) != self.root

    def _named(self, path: Any) -> None:
        path = Path(path)
        found = path.lstat() if path.exists() else None
        if found is not None and stat.S_ISDIR(found.st_mode):
            self.directories.add(self.identity(found.st_ino))
        self.note(Change(path.parent, path.name, self.identity(found.st_ino) if found else None))

    def _open(self, real: Any) -> Any:
        def opened(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            return int(self._opened(path, create=bool(flags & os.O_CREAT), call=lambda: real(path, flags, *rest, **more)))

        return opened

    def _open_by_mode(self, real: Any) -> Any:
        def opened(path: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
            return self._opened(path, create=mode[:1] in ("w", "x", "a"), call=lambda: real(path, mode, *rest, **more))

        return opened

    def _opened(self, path: Any, *, create: bool, call: Callable[[], Any]) -> Any:
        new = create and self._ours(path) and not Path(path).exists()
        if new:
            self.may_act()
        found = call()
        if new:
            inode = Path(path).lstat().st_ino
            self.uses[inode] = self.uses.get(inode, 0) + 1
            self._named(path)
        return found

    def _changing(self, real: Any, *at: int) -> Any:
        def changed(*args: Any, **more: Any) -> None:
            paths = [args[number] for number in at if self._ours(args[number])]
            if paths:
                self.may_act()
            real(*args, **more)
            for path in paths:
                self._named(path)

        return changed

    def _mkdir(self, real: Any) -> Any:
        return self._changing(real, 0)

    def _link(self, real: Any) -> Any:
        return self._changing(real, 1)

    def _rename(self, real: Any) -> Any:
        return self._changing(real, 0, 1)

    _unlink = _remove = _rmdir = _mkdir
    _replace = _rename

    def _fsync(self, real: Any) -> Any:
        def synced(handle: int) -> None:
            path = Path(f"/proc/self/fd/{handle}").readlink()
            if not path.is_relative_to(self.root):
                return
            self.may_act()
            real(handle)
            found = os.fstat(handle)
            if stat.S_ISDIR(found.st_mode):
                self.note(Synced(self.identity(found.st_ino), path, None))
            else:
                self.note(Synced(self.identity(found.st_ino), None, path.read_bytes()))

        return synced
