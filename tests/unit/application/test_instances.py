"""Instances of an application: keys asked in one hop, and never at an address that is not configured or that plain http would carry a token to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from streams_recovery.application.instances import Fleet
from streams_recovery.application.port import ForeignOwner, InstanceState, InstanceStatus, NoKeyRoute
from streams_recovery.config.runs.process import Control
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, Damaged
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion

ALICE = KeyQuestion(store="totals", key="alice")
TOKEN = "a-token-of-theirs"
# By path: the status and what is answered with it. "{port}" is the port of the instance beside it.
Answers = dict[str, tuple[int, object]]
OWN: Answers = {"/state/totals/alice": (200, {"found": True, "value": 4})}
NOT_MINE: Answers = {"/state/totals/alice": (421, {})}


class Instance:
    """An instance that answers by path."""

    def __init__(self, name: str) -> None:
        self.name, self.answers, self.seen = name, Answers(), list[tuple[str, str | None]]()
        self.first: list[tuple[int, object]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.seen.append((self.path, self.headers.get("Authorization")))
                status, body = outer.first.pop(0) if outer.first else outer.answers.get(self.path, (404, {"error": "no such path"}))
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def port(self) -> int:
        return self.server.server_port

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.seen]

    def owns(self, other: Instance, host: str = "127.0.0.1") -> None:
        """It says that ``other`` has the key."""
        self.answers["/owner/totals/alice"] = (200, {"host": host, "port": other.port})


@pytest.fixture
def instances() -> Iterator[Callable[[str], Instance]]:
    made: list[Instance] = []

    def make(name: str) -> Instance:
        made.append(Instance(name))
        return made[-1]

    yield make
    for one in made:
        one.server.shutdown()
        one.server.server_close()


@pytest.fixture
def one(instances: Callable[[str], Instance]) -> Instance:
    return instances("one")


@pytest.fixture
def two(instances: Callable[[str], Instance]) -> Instance:
    return instances("two")


def fleet(*found: Instance, gone: str = "", **control: object) -> Fleet:
    def status(name: str) -> InstanceStatus:
        state = InstanceState.GONE if name == gone else InstanceState.RUNNING
        return InstanceStatus(name=name, state=state, streams_state=None, closed_cleanly=None, detail="")

    urls = {instance.name: f"http://127.0.0.1:{instance.port}" for instance in found}
    return Fleet(urls=urls, control=Control.model_validate(control), statuses=lambda: tuple(map(status, urls)))


def test_the_owner_that_the_first_one_names_answers(one: Instance, two: Instance) -> None:
    one.owns(two, host="localhost")
    two.answers = OWN
    assert fleet(one, two).query_keys([ALICE, ALICE], seconds=0) == (KeyAnswer(instance="two", found=True, value=4),) * 2
    assert (one.paths, two.paths) == (["/owner/totals/alice"] * 2, ["/state/totals/alice"] * 2)


def test_an_owner_elsewhere_is_never_asked(one: Instance, two: Instance, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    one.owns(two)
    two.answers = OWN
    with pytest.raises(ForeignOwner, match="nothing was sent there") as caught:
        fleet(one, token_file=str(tmp_path / "token")).query_keys([ALICE], seconds=0)
    assert caught.value.facts == {"host": "127.0.0.1", "port": two.port}
    assert one.seen == [("/owner/totals/alice", f"Bearer {TOKEN}")]
    assert two.seen == [], "neither a request nor the token goes to an address that is not configured"


def test_what_an_owner_names_as_an_owner_is_not_asked_for(one: Instance, two: Instance) -> None:
    one.owns(two)
    two.owns(one)
    one.answers |= NOT_MINE
    two.answers |= NOT_MINE
    with pytest.raises(ApplicationNotReady, match="no instance has the partition"):
        fleet(one, two).query_keys([ALICE], seconds=0)
    assert (one.paths, two.paths) == (["/owner/totals/alice", "/state/totals/alice"], ["/state/totals/alice"])


def test_a_key_is_missing_only_when_nobody_has_it(one: Instance, two: Instance) -> None:
    one.owns(one)
    one.answers |= {"/state/totals/alice": (404, {"found": False})}
    two.answers = OWN
    [found] = fleet(one, two).query_keys([ALICE], seconds=0)
    assert (found.instance, found.value) == ("two", 4), "a producer chose another partition for it"
    two.answers = NOT_MINE
    assert fleet(one, two).query_keys([ALICE], seconds=0) == (KeyAnswer(instance="one", found=False),)
    two.answers = {"/state/totals/alice": (503, {})}
    with pytest.raises(ApplicationNotReady):
        fleet(one, two).query_keys([ALICE], seconds=0)


def test_while_it_rebalances_it_is_asked_again(one: Instance, two: Instance) -> None:
    one.owns(two)
    one.answers |= NOT_MINE
    two.first = [(421, {}), (503, {"error": "rebalancing"})]
    two.answers = OWN
    [found] = fleet(one, two).query_keys([ALICE], seconds=30)
    assert found.value == 4
    assert len(two.seen) == 3


def test_an_owner_that_has_just_left_is_asked_for_again(one: Instance, two: Instance) -> None:
    one.owns(one)
    one.answers |= OWN
    one.first = [(200, {"host": "127.0.0.1", "port": two.port})] * 2
    assert fleet(one).query_keys([ALICE], seconds=30)[0].value == 4
    assert (one.paths, two.seen) == (["/owner/totals/alice"] * 3 + ["/state/totals/alice"], [])


def test_where_no_owner_is_named_each_is_asked(one: Instance, two: Instance) -> None:
    one.answers, two.answers = NOT_MINE, OWN
    [found] = fleet(one, two).query_keys([ALICE], seconds=0)
    assert (found.instance, found.value) == ("two", 4)
    assert one.paths == ["/owner/totals/alice", "/state/totals/alice"]
    [found] = fleet(one, two, owner=None).query_keys([ALICE], seconds=0)
    assert (found.instance, one.paths[2:]) == ("two", ["/state/totals/alice"])


def test_one_that_does_not_answer_does_not_keep_others_from_it(one: Instance, two: Instance) -> None:
    one.answers = {"/owner/totals/alice": (503, {})}
    two.owns(two)
    two.answers |= OWN
    assert fleet(one, two).query_keys([ALICE], seconds=0)[0].instance == "two"
    two.answers["/owner/totals/alice"] = (503, {})
    with pytest.raises(ApplicationNotReady, match="503"):
        fleet(one, two).query_keys([ALICE], seconds=0)


def test_without_the_route_nothing_is_known(one: Instance) -> None:
    with pytest.raises(NoKeyRoute, match="no such path"):
        fleet(one).query_keys([ALICE], seconds=30)
    one.seen.clear()
    with pytest.raises(NoKeyRoute, match="offers no queries by key"):
        fleet(one, query_key=None).query_keys([ALICE], seconds=30)
    assert one.seen == []


def test_a_wrong_answer_is_not_asked_for_again(one: Instance) -> None:
    one.owns(one)
    one.answers |= {"/state/totals/alice": (200, {"found": True})}
    with pytest.raises(Damaged):
        fleet(one).query_keys([ALICE], seconds=30)
    assert one.paths == ["/owner/totals/alice", "/state/totals/alice"]


def test_nobody_who_runs_is_nobody_who_answers(one: Instance) -> None:
    with pytest.raises(ApplicationNotReady, match="no instance is running"):
        fleet(one, gone="one").query_keys([ALICE], seconds=0)
    assert fleet(one, gone="one").query_keys([], seconds=0) == ()


def standing() -> tuple[InstanceStatus, ...]:
    return (InstanceStatus(name="one", state=InstanceState.RUNNING, streams_state=None, closed_cleanly=None, detail=""),)


@pytest.mark.fault("F61")
def test_plain_http_to_another_machine_is_refused_unless_the_configuration_says_so() -> None:
    urls = {"one": "http://order-processor:18081"}
    with pytest.raises(ConfigInvalid, match=r"plain http to another machine.*control\.allow_http"):
        Fleet(urls=urls, control=Control(), statuses=standing)
    Fleet(urls=urls, control=Control(allow_http=True), statuses=standing)
    Fleet(urls={"one": "https://order-processor:18081", "two": "http://127.0.0.1:1"}, control=Control(), statuses=standing)


def test_a_token_that_cannot_be_read_is_no_silence(tmp_path: Path) -> None:
    fleet = Fleet(urls={"one": "http://127.0.0.1:9"}, control=Control(token_file=str(tmp_path / "none")), statuses=standing)
    for ask in (lambda: fleet.reports(["one"]), fleet.pause, fleet.resume):
        with pytest.raises(ConfigInvalid, match="token file"):
            ask()
