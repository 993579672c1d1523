"""Who may read what is in a repository's directory is decided by that directory, and never by the umask of who writes."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streams_recovery.core.connection import StoredConnection
from streams_recovery.core.errors import ConfigInvalid, StoreUnsuitable
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.backends import credentials_in
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.open_store import authorities
from streams_recovery.storage.repository import AlreadyExists, Repository
from tests.support.kafka.secured_broker import Authority

WHERE = "connection aws_default"


def read(text: str) -> StorageCredentials | None:
    return credentials_in(StoredConnection.parse(text), "s3", where=WHERE)


@pytest.mark.parametrize(
    "text",
    [
        "aws://AKIA:se%2Fcret@/?aws_session_token=token",
        "aws://?aws_access_key_id=AKIA&aws_secret_access_key=se%2Fcret&aws_session_token=token",
        json.dumps({"conn_type": "aws", "login": "AKIA", "password": "se/cret", "extra": {"aws_session_token": "token"}}),
    ],
)
def test_a_key_is_login_and_password_or_in_the_extra(text: str, caplog: pytest.LogCaptureFixture) -> None:
    found = read(text)
    assert found is not None
    assert (found.options["access_key_id"], found.options["secret_access_key"], found.options["session_token"]) == (
        "AKIA",
        "se/cret",
        "token",
    )
    assert caplog.records == []


@pytest.mark.parametrize("text", ["aws://", "aws://AKIA@", '{"conn_type": "aws", "extra": {"role_arn": "", "region_name": null}}'])
def test_without_a_key_the_machine_s_own_role_is_used(text: str) -> None:
    assert read(text) is None


def test_what_the_configuration_file_says_is_left_out_of_the_connection_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert read("aws://AKIA:hunter2@/?region_name=eu-west-1&endpoint_url=hunter3") is not None
    assert caplog.messages == ["connection aws_default: ignored endpoint_url, region_name: this software does not use them"]


def test_a_role_is_refused_and_not_left_out() -> None:
    with pytest.raises(ConfigInvalid) as refused:
        read("aws://AKIA:hunter2@/?role_arn=arn")
    assert refused.value.facts["keys"] == ["role_arn"]
    assert "hunter2" not in str(refused.value)


UMASKS = [0o000, 0o002, 0o022, 0o077]


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def written(place: Path, mask: int) -> dict[str, int]:
    """Modes below ``place`` after a writer with this umask, by path."""
    source = place.parent / "source"
    source.write_bytes(b"segment")
    with umask(mask):
        repository = Repository(StorageLocation(backend="filesystem", path=str(place)))
        repository.create("orders/locks/1.json", b"{}")
        repository.put_file("orders/segments/a.parquet", source)
        with pytest.raises(AlreadyExists):
            repository.create("orders/locks/1.json", b"other")
    return {str(path.relative_to(place.parent)): stat.S_IMODE(path.stat().st_mode) for path in [place, *place.rglob("*")]}


def expected(root: int, directory: int, file: int) -> dict[str, int]:
    directories = ("orders", "orders/locks", "orders/segments")
    files = ("orders/locks/1.json", "orders/segments/a.parquet")
    return {
        "repository": root,
        **{f"repository/{name}": directory for name in directories},
        **{f"repository/{name}": file for name in files},
    }


@pytest.mark.parametrize("mask", UMASKS)
def test_a_new_repository_is_its_owner_s_alone(tmp_path: Path, mask: int) -> None:
    assert written(tmp_path / "repository", mask) == expected(0o700, 0o700, 0o600)


@pytest.mark.parametrize("mask", UMASKS)
@pytest.mark.parametrize(
    ("root", "directory", "file"),
    [
        (0o700, 0o700, 0o600),
        (0o750, 0o750, 0o640),
        (0o770, 0o770, 0o660),
        (0o2770, 0o2770, 0o660),
        (0o755, 0o750, 0o640),
        (0o1777, 0o770, 0o660),
    ],
)
def test_the_group_gets_what_the_directory_gives_it_and_others_nothing(
    tmp_path: Path, mask: int, root: int, directory: int, file: int
) -> None:
    place = tmp_path / "repository"
    place.mkdir()
    place.chmod(root)
    assert written(place, mask) == expected(root, directory, file)


def test_what_broke_off_is_no_object_and_in_nobody_s_way(tmp_path: Path) -> None:
    repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "repository")))
    repository.create("a/one", b"1")
    for number in (1, 2, 3):
        (tmp_path / "repository" / "a" / f"two#{number}").write_bytes(b"half")
    repository.create("a/two", b"2")
    assert list(repository.keys("")) == ["a/one", "a/two"]
    assert repository.get("a/two") == b"2"


def no_hard_links(_source: object, _target: object, **_: object) -> None:
    """As a FAT file system answers."""
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def overwritten(_source: object, target: str, **_: object) -> None:
    """A file system on which a link replaces what there is."""
    Path(target).write_bytes(b"")


@pytest.mark.fault("F91")
@pytest.mark.parametrize(("link", "said"), [(no_hard_links, "has no hard links"), (overwritten, "created twice")])
def test_a_file_system_that_does_not_create_a_file_once_holds_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: Callable[..., None], said: str
) -> None:
    repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "repository")))
    monkeypatch.setattr(os, "link", link)
    with pytest.raises(StoreUnsuitable, match=f"{said}.*cannot hold a repository|cannot hold a repository.*{said}") as caught:
        repository.create("app/locks/000000000001.json", b"mine")
    assert caught.value.exit_code == 2
    assert [path for path in (tmp_path / "repository").rglob("*") if path.is_file()] == []


@pytest.mark.fault("F91")
def test_asking_a_directory_leaves_nothing_there(tmp_path: Path) -> None:
    repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "repository")))
    repository.require_suitable("app")
    assert [path.name for path in (tmp_path / "repository").rglob("*")] == ["app"]


PEM = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"


def found_in(directory: Path, change: Callable[[str], str]) -> StorageLocation:
    """A location whose file of authorities is a good one that was changed."""
    file = Authority(directory, "own").certificate
    file.write_bytes(change(file.read_text()).encode())
    return StorageLocation(backend="s3", bucket="b", prefix="", endpoint="https://127.0.0.1:1", ca_file=str(file))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda good: good[:-40], "has a certificate that is cut off: it has no line -----END CERTIFICATE-----: number 1 of 1"),
        (
            lambda good: good.replace("MI", "M!", 1),
            "has a certificate that is no base64 text between its first and its last line: number 1 of 1",
        ),
        (
            lambda good: good + PEM.format("aGVsbG8="),
            "has a certificate that is base64 text of something else than a certificate: number 2 of 2",
        ),
        (
            lambda good: good[:0] + PEM.format(""),
            "has a certificate that is base64 text of something else than a certificate: number 1 of 1",
        ),
        (lambda good: good.replace("CERTIFICATE", "PRIVATE KEY"), "has no certificate in PEM form"),
    ],
    ids=["cut off", "no base64", "the second is none", "empty", "a key"],
)
def test_what_is_wrong_with_a_file_of_authorities_is_said_with_its_name(tmp_path: Path, change: Callable[[str], str], said: str) -> None:
    location = found_in(tmp_path, change)
    with pytest.raises(ConfigInvalid) as caught:
        authorities(location)
    assert caught.value.reason == f"storage.ca_file: {location.ca_file} {said}" + (" in the file" if "number" in said else "")


@pytest.mark.parametrize(
    "change",
    [str, lambda good: good + good, lambda good: f"# für uns\n{good}", lambda good: good.replace("\n", "\r\n")],
    ids=["one", "two", "a comment", "CRLF"],
)
def test_a_file_of_authorities_is_taken_as_both_libraries_take_it(tmp_path: Path, change: Callable[[str], str]) -> None:
    location = found_in(tmp_path, change)
    assert authorities(location) == {"root_certificate": Path(str(location.ca_file)).read_bytes()}
    Repository(location, read("aws://AKIA:secret@/"))
