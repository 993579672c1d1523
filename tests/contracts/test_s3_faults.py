"""A busy server, lost replies and late listings: real requests to a real server, broken by a proxy on the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.stores.s3 import CREDENTIALS, S3Server, behind
from streams_recovery.core.errors import Damaged, LockHeld, LockLost, RepositoryUnavailable, StoreUnsuitable
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.conditional_put import Retries
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import AlreadyExists, Repository
from streams_recovery.storage.run_artifacts import RunArtifacts
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.storage.contract import LAYOUT, Entry, savepoint
from tests.support.storage.s3_proxy import Act, Proxy, Request, puts, s3_proxy

QUICK = Retries(attempts=4, first_seconds=0.01)
NOW = 1_800_000_000_000


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[Proxy]:
    with s3_proxy(s3.endpoint) as running:
        yield running


@pytest.fixture
def bucket(s3: S3Server) -> StorageLocation:
    """Versioned, so that an object that was written twice shows."""
    return s3.bucket("versioned")


@pytest.fixture
def direct(bucket: StorageLocation) -> Repository:
    """The repository as others see it, past the proxy."""
    return Repository(bucket, CREDENTIALS)


@pytest.fixture
def shaky(bucket: StorageLocation, proxy: Proxy) -> Repository:
    return Repository(behind(bucket, proxy.endpoint), CREDENTIALS, QUICK)


def any_request(_request: Request) -> bool:
    return True


@pytest.mark.fault("F7")
def test_a_busy_server_is_asked_again_until_it_answers(shaky: Repository, proxy: Proxy, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"segment" * 1000)
    uses = {
        "create": lambda: shaky.create("a", b"x"),
        "put_file": lambda: shaky.put_file("b", tmp_path / "file"),
        "get": lambda: shaky.get("a"),
        "open": lambda: shaky.open("b").read(),
        "size": lambda: shaky.size("b"),
        "keys": lambda: list(shaky.keys("")),
        "listed": lambda: shaky.listed(""),
        "delete": lambda: shaky.delete(["a"]),
    }
    for name, use in uses.items():
        before = len(proxy.seen)
        proxy.inject("refuse", any_request, times=2)
        use()
        assert len(proxy.seen) - before >= 3, name
    assert shaky.get("b") == b"segment" * 1000
    assert list(shaky.keys("")) == ["b"]


@pytest.mark.fault("F7")
def test_a_server_that_stays_busy_is_a_passing_failure_with_key_and_attempts(shaky: Repository, direct: Repository, proxy: Proxy) -> None:
    for application_id in ("some", LAYOUT.application_id):
        shaky.require_suitable(application_id)
    proxy.seen.clear()
    proxy.inject("refuse", puts(), times=1000)
    with pytest.raises(RepositoryUnavailable, match="503") as caught:
        shaky.create("some/key", b"x")
    assert (caught.value.facts["key"], caught.value.facts["attempts"], caught.value.exit_code) == ("some/key", 4, 7)
    assert len([request for request in proxy.seen if request.method == "PUT"]) == 4
    with pytest.raises(RepositoryUnavailable, match="manifest"):
        SavepointStore(shaky, LAYOUT).publish(savepoint(1))
    assert list(direct.keys("")) == [], "no manifest, and nothing else"
    proxy.calm()
    proxy.inject("refuse", any_request, times=1000)
    with pytest.raises(RepositoryUnavailable, match="503") as caught:
        shaky.get("some/key")
    assert (caught.value.facts["key"], caught.value.facts["attempts"]) == ("some/key", 4)
    proxy.calm()
    assert SavepointStore(shaky, LAYOUT).publish(savepoint(1)) == LAYOUT.manifest(savepoint(1).savepoint_id), "the next run is fine"


@pytest.mark.fault("F8")
@pytest.mark.parametrize("act", ["lose_reply", "late_503"])
@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "no-metadata"])
@pytest.mark.parametrize("times", [1, 3])
def test_what_one_wrote_oneself_is_not_taken_for_somebody_else_s(
    s3: S3Server, shaky: Repository, proxy: Proxy, tmp_path: Path, act: Act, times: int, *, metadata: bool
) -> None:
    proxy.metadata = metadata
    (tmp_path / "file").write_bytes(b"segment" * 1000)
    for key, write in (
        ("created", lambda: shaky.create("created", b"x")),
        ("uploaded", lambda: shaky.put_file("uploaded", tmp_path / "file")),
    ):
        proxy.inject(act, puts(key), times=times)
        write()
    assert (shaky.get("created"), shaky.get("uploaded")) == (b"x", b"segment" * 1000)
    versions = s3.versions(shaky.location)
    assert {key: len(ids) for key, ids in versions.items()} == {"created": 1, "uploaded": 1}, "nothing was written twice"


@pytest.mark.fault("F8")
def test_replies_that_never_arrive_are_looked_up(shaky: Repository, direct: Repository, proxy: Proxy) -> None:
    proxy.inject("lose_reply", puts(), times=1000)
    shaky.create("key", b"mine")
    assert direct.get("key") == b"mine"


@pytest.mark.fault("F8")
@pytest.mark.parametrize("act", ["refuse", "lose_reply", "late_503"])
def test_somebody_else_s_object_stays_somebody_else_s_even_with_the_same_content(
    shaky: Repository, direct: Repository, proxy: Proxy, act: Act, tmp_path: Path
) -> None:
    direct.create("key", b"same")
    (tmp_path / "file").write_bytes(b"same")
    for write in (lambda: shaky.create("key", b"same"), lambda: shaky.put_file("key", tmp_path / "file")):
        proxy.inject(act, puts(), times=2)
        with pytest.raises(AlreadyExists, match="key"):
            write()
    assert direct.get("key") == b"same"


def test_without_a_lost_reply_the_first_refusal_is_believed(shaky: Repository, direct: Repository, proxy: Proxy) -> None:
    proxy.metadata = False
    direct.create("key", b"same")
    with pytest.raises(AlreadyExists):
        shaky.create("key", b"same")
    assert [request.method for request in proxy.seen] == ["PUT"]


def test_a_conflict_with_another_writer_is_no_answer_yet(shaky: Repository, direct: Repository, proxy: Proxy) -> None:
    proxy.inject("conflict", puts(), times=2)
    shaky.create("key", b"x")
    assert direct.get("key") == b"x"
    proxy.inject("conflict", puts(), times=1000)
    with pytest.raises(AlreadyExists):
        shaky.create("key", b"y")
    with pytest.raises(RepositoryUnavailable, match="409"):
        shaky.create("other", b"y")
    assert list(direct.keys("")) == ["key"]


@pytest.mark.parametrize("act", ["lose_reply", "late_503"])
def test_an_entry_whose_reply_was_lost_is_there_once(shaky: Repository, direct: Repository, proxy: Proxy, act: Act) -> None:
    log, others = (AppendLog(repository, LAYOUT.holds, Entry) for repository in (shaky, direct))
    proxy.inject(act, puts(LAYOUT.holds))
    assert log.append(Entry(text="same")) == 1
    assert others.append(Entry(text="same")) == 2
    # Between the request that was lost and the one that repeats it, another writer with the same words was faster.
    proxy.inject("refuse", puts(LAYOUT.holds))
    others.append(Entry(text="same"))
    assert log.append(Entry(text="same")) == 4
    assert [entry.text for entry in others.read_all()] == ["same"] * 4
    notes = LAYOUT.work("run", "cut").rpartition("/")[0]
    proxy.inject(act, puts(notes))
    first = RunArtifacts(shaky, LAYOUT).write("run", "cut", Entry(text="a"))
    assert list(direct.keys(f"{notes}/")) == [first.key]


@pytest.mark.fault("F8")
@pytest.mark.parametrize("act", ["lose_reply", "late_503"])
def test_a_lock_whose_reply_was_lost_is_held(shaky: Repository, direct: Repository, proxy: Proxy, act: Act) -> None:
    mine, theirs = (ApplicationLock(repository, Layout("orders"), lambda: NOW) for repository in (shaky, direct))
    proxy.inject(act, puts(LAYOUT.locks))
    ticket = mine.acquire("backup 1", lease_seconds=60, purpose="hourly savepoint")
    assert ticket.number == 1
    with pytest.raises(LockHeld, match="backup 1"):
        theirs.acquire("restore 2", lease_seconds=60, purpose="restore")
    proxy.inject(act, puts(LAYOUT.locks))
    mine.renew(ticket, lease_seconds=60)
    proxy.inject(act, puts(LAYOUT.locks))
    mine.release(ticket)
    assert len(list(direct.keys(LAYOUT.locks))) == 3, "acquired, renewed, released: nothing twice"
    assert theirs.acquire("restore 2", lease_seconds=60, purpose="restore").number == 4


@pytest.mark.fault("F8")
@pytest.mark.parametrize("act", ["lose_reply", "late_503"])
def test_a_manifest_whose_reply_was_lost_is_published_once(
    s3: S3Server, shaky: Repository, direct: Repository, proxy: Proxy, act: Act
) -> None:
    published = savepoint(1)
    proxy.inject(act, puts("manifest"))
    SavepointStore(shaky, LAYOUT).publish(published)
    assert SavepointStore(direct, LAYOUT).read(published.savepoint_id) == published
    assert len(s3.versions(direct.location)[LAYOUT.manifest(published.savepoint_id)]) == 1
    proxy.inject(act, puts("manifest"))
    with pytest.raises(Damaged, match="a different savepoint"):
        SavepointStore(shaky, LAYOUT).publish(dataclasses.replace(published, cluster_id="another"))
    assert SavepointStore(direct, LAYOUT).read(published.savepoint_id) == published


@pytest.mark.fault("F12")
def test_a_late_listing_gives_nobody_the_lock_of_another(shaky: Repository, direct: Repository, proxy: Proxy) -> None:
    late, prompt = (ApplicationLock(repository, Layout("orders"), lambda: NOW) for repository in (shaky, direct))
    assert late.holder() is None
    prompt.acquire("backup 1", lease_seconds=60, purpose="hourly savepoint")
    proxy.inject("stale", lambda request: request.is_list, times=1000)
    assert late.holder() is None, "that is what the late listing says"
    with pytest.raises(LockHeld, match="backup 1"):
        late.acquire("restore 2", lease_seconds=60, purpose="restore")
    proxy.calm()
    ticket = late.acquire("backup 1", lease_seconds=60, purpose="hourly savepoint")
    proxy.inject("stale", lambda request: request.is_list, times=1000)
    assert prompt.take_from("backup 1")
    prompt.acquire("restore 2", lease_seconds=60, purpose="restore")
    with pytest.raises(LockLost, match="backup 1 no longer holds"):
        late.renew(ticket, lease_seconds=60)
    holder = prompt.holder()
    assert holder is not None
    assert holder.owner == "restore 2"


@pytest.mark.parametrize(
    ("sse", "key_id"), [(None, None), ("AES256", None), ("aws:kms", None), ("aws:kms", "arn:aws:kms:eu-west-1:1:key/2")]
)
def test_every_object_is_written_conditionally_with_a_checksum_and_encrypted_as_configured(
    bucket: StorageLocation, proxy: Proxy, tmp_path: Path, sse: str | None, key_id: str | None
) -> None:
    repository = Repository(dataclasses.replace(behind(bucket, proxy.endpoint), sse=sse, kms_key_id=key_id), CREDENTIALS, QUICK)
    (tmp_path / "file").write_bytes(bytes(6 << 20))
    repository.create("small", b"x")
    repository.create("empty", b"")
    repository.put_file("large", tmp_path / "file")
    SavepointStore(repository, LAYOUT).publish(savepoint(1))
    written = {request.target: request.headers for request in proxy.seen if request.method != "GET"}
    objects = [*repository.keys(""), LAYOUT.probe]
    assert len(written) == len(objects) >= 5, "one request an object: an upload in parts cannot be conditional"
    assert not any("?" in target for target in written)
    for headers in written.values():
        assert headers["if-none-match"] == "*"
        assert "x-amz-checksum-sha256" in headers
        assert headers.get("x-amz-server-side-encryption") == sse
        assert headers.get("x-amz-server-side-encryption-aws-kms-key-id") == key_id


@pytest.mark.fault("F91")
def test_a_server_that_overwrites_what_there_is_holds_no_repository(s3: S3Server, proxy: Proxy) -> None:
    plain = s3.bucket()
    shaky, direct = Repository(behind(plain, proxy.endpoint), CREDENTIALS, QUICK), Repository(plain, CREDENTIALS)
    proxy.inject("unconditional", puts(), times=1000)
    with pytest.raises(
        StoreUnsuitable, match=r"created twice, each time only where there is none, and the second one was not refused"
    ) as caught:
        ApplicationLock(shaky, LAYOUT, lambda: NOW).acquire("one", lease_seconds=60, purpose="a savepoint")
    assert (caught.value.exit_code, caught.value.facts["key"]) == (2, LAYOUT.probe)
    assert list(direct.keys("")) == [], "no lock, and the probe is no object of anybody"
    with pytest.raises(StoreUnsuitable):
        shaky.require_suitable(LAYOUT.application_id)


@pytest.mark.fault("F91")
@pytest.mark.parametrize(("act", "said"), [("unknown_header", "NotImplemented"), ("bad_checksum", "x-amz-checksum-sha256")])
def test_a_server_that_knows_no_condition_or_checksum_is_said_to_hold_no_repository(
    shaky: Repository, proxy: Proxy, act: Act, said: str
) -> None:
    proxy.inject(act, puts(), times=1000)
    with pytest.raises(StoreUnsuitable, match=rf"cannot hold a repository: .*{said}") as caught:
        shaky.create("orders/locks/000000000001.json", b"x")
    assert "If-None-Match" in caught.value.next_step
    assert [request.method for request in proxy.seen] == ["GET", "PUT"], (
        "asked whether the repository has moved, and nothing was sent again"
    )


@pytest.mark.fault("F91")
@pytest.mark.parametrize(
    ("act", "hits", "said"),
    [
        ("empty_list", lambda request: request.is_list, "a listing of orders/probe/ does not show it"),
        ("not_there", lambda request: request.method == "GET" and not request.is_list, "it cannot be read"),
        (
            "other_bytes",
            lambda request: request.method == "GET" and "range" not in request.headers and not request.is_list,
            "is not what was written",
        ),
        ("other_bytes", lambda request: request.method == "GET" and "range" in request.headers, "is not that part"),
    ],
)
def test_a_store_that_does_not_give_back_what_it_was_given_holds_no_repository(
    shaky: Repository, proxy: Proxy, act: Act, hits: Callable[[Request], bool], said: str
) -> None:
    proxy.inject(act, hits, times=1000)
    with pytest.raises(StoreUnsuitable, match=f"cannot hold a repository: .*{said}") as caught:
        shaky.create("orders/locks/000000000001.json", b"x")
    assert (caught.value.exit_code, caught.value.facts["key"]) == (2, LAYOUT.probe)


@pytest.mark.fault("F91")
@pytest.mark.parametrize("act", ["lose_reply", "late_503", "conflict", "refuse"])
@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "no-metadata"])
@pytest.mark.parametrize("good", [0, 1], ids=["first", "second"])
def test_a_good_server_that_is_busy_is_no_bad_one(
    s3: S3Server, shaky: Repository, proxy: Proxy, act: Act, good: int, *, metadata: bool
) -> None:
    proxy.metadata = metadata
    asked: list[Request] = []

    def hits(request: Request) -> bool:
        if request.method == "PUT":
            asked.append(request)
        return request.method == "PUT" and len(asked) > good

    proxy.inject(act, hits, times=2)
    shaky.require_suitable(LAYOUT.application_id)
    assert {key: len(ids) for key, ids in s3.versions(shaky.location).items()} == {LAYOUT.probe: 1}


@pytest.mark.fault("F91")
def test_a_bucket_is_asked_before_the_first_object_of_an_application_and_once(s3: S3Server, shaky: Repository, proxy: Proxy) -> None:
    for number in range(3):
        shaky.create(f"orders/status/{number:012}.json", b"x")
    asked = [request.key.rpartition("/")[2] for request in proxy.seen]
    assert asked == ["place.json"] + ["created-once.txt"] * 2 + [""] + ["created-once.txt"] * 2 + [f"{n:012}.json" for n in range(3)]
    proxy.seen.clear()
    shaky.require_suitable("orders", whole=False)
    assert len(proxy.seen) == 1, "of one that is there, one request tells"
    shaky.require_suitable("orders")
    assert len(proxy.seen) == 5, "a preflight asks for all, whatever an earlier time has seen"
    assert "orders/probe/created-once.txt" in s3.versions(shaky.location)
    assert [file.key for file in shaky.listed("")] == [f"orders/status/{n:012}.json" for n in range(3)]
