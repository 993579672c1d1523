"""A log that others write to all the time, and one that nobody shortens."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from embedded.stores.s3 import CREDENTIALS
from streams_recovery.core.errors import Damaged, RepositoryUnavailable
from streams_recovery.core.repository.layout import Layout, StorageLocation, is_probe
from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.storage import append_log
from streams_recovery.storage import repository as store
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.conditional_put import Retries
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.seals import new_private_key

HOLDS = Layout("orders").holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    text: str


def test_who_is_never_the_first_gives_up_after_a_hundred_attempts_and_has_written_nothing(tmp_path: Path) -> None:
    log, other = (
        AppendLog(Repository(StorageLocation(backend="filesystem", path=str(tmp_path))), Layout("orders").holds, Entry) for _ in range(2)
    )

    def too_slow(last: Entry | None, number: int) -> Entry:
        other.append(Entry(text=f"faster {number}"))
        return Entry(text="slower")

    with pytest.raises(RepositoryUnavailable) as caught:
        log.append_after(too_slow)
    assert caught.value.facts["races"] == 100
    assert [entry.text for entry in log.read_all()] == [f"faster {number}" for number in range(1, 101)]


@dataclass
class Bucket:
    """What an S3 server answers about one long log, and how often it was asked. It keeps no content: each entry has its number."""

    numbers: list[int]
    asked: list[str] = field(default_factory=list)

    def names(self, after: str) -> list[str]:
        names = [key(number) for number in self.numbers]
        return names[bisect.bisect_right(names, after) :][:1000]

    def listing(self, query: dict[str, list[str]]) -> str:
        found = self.names(query.get("start-after", query.get("continuation-token", [""]))[0])
        items = "".join(
            f"<Contents><Key>{name}</Key><Size>9</Size><ETag>e</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for name in found
        )
        more = len(found) == 1000
        token = f"<NextContinuationToken>{found[-1]}</NextContinuationToken>" if more else ""
        return f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{items}</ListBucketResult>"


def key(number: int) -> str:
    return f"{HOLDS}{number:012}.json"


@contextmanager
def served(bucket: Bucket) -> Iterator[Repository]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            name = asked.path.partition("/test/")[2]
            if name == Layout("orders").moved:
                return self._answer(b"", status=404)
            bucket.asked.append(f"GET {name}" if name else "LIST")
            text = f'{{"text":"{int(name[-17:-5])}"}}' if name else bucket.listing(parse_qs(asked.query))
            return self._answer(text.encode())

        def do_PUT(self) -> None:
            name = urlsplit(self.path).path.partition("/test/")[2]
            self.rfile.read(int(self.headers["Content-Length"]))
            if is_probe(name):
                return self._answer(b"", status=412)
            bucket.asked.append(f"PUT {name}")
            bisect.insort(bucket.numbers, int(name[-17:-5]))
            return self._answer(b"")

        def _answer(self, body: bytes, *, status: int = 200) -> None:
            self.send_response(status)
            for header in ("ETag", "e"), ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT"), ("Content-Length", str(len(body))):
                self.send_header(*header)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        where = f"http://127.0.0.1:{server.server_port}"
        location = StorageLocation(backend="s3", bucket="test", region="us-east-1", endpoint=where, path_style=True, allow_http=True)
        yield Repository(location, CREDENTIALS, Retries(attempts=1))
        server.shutdown()


@pytest.mark.parametrize("first", [pytest.param(1, marks=pytest.mark.deep), 54_321])
def test_a_look_at_a_log_of_a_hundred_thousand_entries_is_a_few_requests(first: int) -> None:
    bucket = Bucket(list(range(first, first + 100_000)))
    with served(bucket) as repository:
        log = AppendLog(repository, HOLDS, Entry)
        assert log.last() == Entry(text=str(first + 99_999))
        assert (len(bucket.asked) <= 25, bucket.asked.count("LIST")) == (True, len(bucket.asked) - 1), bucket.asked
        bucket.asked.clear()
        assert log.append_after(lambda last, number: Entry(text=f"{number} after {last}")) == first + 100_000
        assert bucket.asked == ["LIST", f"GET {key(first + 99_999)}", f"PUT {key(first + 100_000)}"], "it knows where it looked before"
        bucket.asked.clear()
        assert [entry.text for entry in islice(log.read_back(), 3)] == [str(first + 100_000 - back) for back in range(3)]
        assert bucket.asked.count("LIST") <= 3
        bucket.asked.clear()
        assert [int(entry.text) for entry in islice(log.readable_back(whole=False), 1500)][-1] == first + 100_000 - 1499
        assert bucket.asked.count("LIST") <= 4


def test_a_number_that_is_missing_where_somebody_looks_is_damage_in_a_long_log_too() -> None:
    for missing, far in ((99_990, None), (99_000, None), (None, 10**11)):
        bucket = Bucket([number for number in range(1, 100_001) if number != missing] + ([far] if far else []))
        with served(bucket) as repository, pytest.raises(Damaged):
            list(islice(AppendLog(repository, HOLDS, Entry).read_back(), 1100))
        assert sum(asked.startswith("LIST") for asked in bucket.asked) <= 30


ORDER: Callable[[AppendLog[Entry]], list[int]] = lambda log: [int(entry.text) for entry in log.readable_back(whole=False)]  # noqa: E731


@settings(max_examples=150, deadline=None)
@given(
    st.sets(st.integers(0, 60) | st.integers(0, 10**12 - 1), max_size=40),
    st.lists(st.sampled_from(["notes.json", "000000000003.json0", "0000000000031.json", "a/000000000001.json", "~"]), unique=True),
    st.integers(1, 8),
)
@example({1, 2, 3, 4, 9, 10}, [], 1).via("a hole as large as a page")
@example({1, 2}, ["0-1", "0-2", "0-3", "0-4"], 1).via("a page without an entry")
def test_any_log_is_read_back_in_order_however_it_is_listed(numbers: set[int], strange: list[str], keep: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append_log, "_PAGE", 4)
        patch.setattr(store, "_PAGE", 4)
        repository = Repository(StorageLocation(backend="memory"))
        for number in numbers:
            repository.create(key(number), f'{{"text":"{number}"}}'.encode())
        for name in strange:
            repository.create(HOLDS + name, b"x")
        down = sorted(numbers, reverse=True)
        log = AppendLog(repository, HOLDS, Entry)
        assert ORDER(log) == ORDER(log) == down
        whole = not down or down[0] - down[-1] == len(down) - 1
        if whole:
            assert [int(entry.text) for entry in log.read_back()] == down
            assert [int(entry.text) for entry in AppendLog(repository, HOLDS, Entry).read_all()] == down[::-1]
        else:
            with pytest.raises(Damaged):
                AppendLog(repository, HOLDS, Entry).read_all()
        assert log.prune(keep, whole=False) == len(down[keep:])
        assert ORDER(AppendLog(repository, HOLDS, Entry)) == down[:keep]


def test_a_log_without_its_first_entry_has_no_oldest_one() -> None:
    repository = Repository(StorageLocation(backend="memory"))
    repository.create(key(2), b'{"text":"2"}')
    with pytest.raises(Damaged, match=f"{HOLDS} has no entry 1, and has {key(2)}"):
        AppendLog(repository, HOLDS, Entry).first()


def test_a_log_whose_newest_entry_was_removed_ends_with_the_one_before_it() -> None:
    repository = Repository(StorageLocation(backend="memory"))
    log = AppendLog(repository, HOLDS, Entry)
    for text in "ab":
        log.append(Entry(text=text))
    repository.delete([key(2)])
    assert log.last() == Entry(text="a")


def test_a_number_that_is_missing_before_a_sealed_entry_is_damage() -> None:
    private, public = new_private_key()
    repository = Repository(StorageLocation(backend="memory"), seal=SealKeys(public=(public,), private=private))
    log = AppendLog(repository, HOLDS, Entry)
    for text in "abc":
        log.append(Entry(text=text))
    repository.delete([key(2)])
    with pytest.raises(Damaged, match=f"{HOLDS} has no entry 2, and has {key(3)}"):
        log.read_all()


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("page", [2, 4, 1000])
def test_numbers_may_be_missing_before_an_entry_that_needs_none_of_them(sealed: bool, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_log, "_PAGE", page)
    monkeypatch.setattr(store, "_PAGE", page)
    private, public = new_private_key()
    repository = Repository(StorageLocation(backend="memory"), seal=SealKeys(public=(public,), private=private) if sealed else None)
    log = AppendLog(repository, HOLDS, Entry)
    for number in range(1, 13):
        log.append(Entry(text=str(number)))
    repository.delete([key(number) for number in (3, 4, 5, 6, 7)])

    def beginning(text: str) -> AppendLog[Entry]:
        return AppendLog(repository, HOLDS, Entry, begins=lambda entry: entry.text == text)

    assert [int(entry.text) for entry in beginning("8").read_all()] == [1, 2, 8, 9, 10, 11, 12]
    assert beginning("8").append_after(lambda _, number: Entry(text=str(number))) == 13
    for text in ("9", "2", ""):
        with pytest.raises(Damaged):
            beginning(text).read_all()


def test_several_readers_find_what_one_finds_and_read_little_for_whoever_needs_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AppendLog(Repository(StorageLocation(backend="filesystem", path=str(tmp_path))), HOLDS, Entry)
    for number in range(1, 41):
        log.append(Entry(text=str(number)))
    assert list(log.numbered_back(readers=8)) == list(log.numbered_back())
    torn = tmp_path / HOLDS / f"{20:012}.json"
    torn.chmod(0o600)
    torn.write_text("{")
    found: list[int] = []
    with pytest.raises(Damaged, match=r"20\.json"):
        found += (number for number, _ in log.numbered_back(readers=8))
    bucket = Bucket(list(range(1, 41)))
    with served(bucket) as repository:
        assert [number for number, _ in islice(AppendLog(repository, HOLDS, Entry).numbered_back(readers=8), 2)] == [40, 39]
    assert sorted(asked for asked in bucket.asked if asked != "LIST") == [f"GET {key(number)}" for number in (38, 39, 40)], (
        "one, and then two"
    )
