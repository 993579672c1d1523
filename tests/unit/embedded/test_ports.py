from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded.ports import HOST, SLICE, PortSlice, claim_slice, free_ports, pool, require_free, slices_in_order
from streams_recovery.core.errors import Refused
from tests.support.project import PROJECT

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Ports that no process asks for: far from the ones that are given out.
ASIDE = range(4_000, 4_000 + 2 * SLICE)


@given(first=st.integers(1_024, 60_999))
def test_ports_lie_below_the_kernels_own_wherever_there_is_room(first: int) -> None:
    ports = pool(f"{first}\t60999\n")
    assert len(ports) == 12_000
    assert ports[0] >= 2_000
    assert ports[-1] < 32_000
    if first >= 14_000:
        assert ports[-1] < first


def test_without_a_kernel_that_tells_the_usual_ports_serve() -> None:
    assert pool("") == pool("49152 65535") == range(20_000, 32_000)


@given(worker=st.none() | st.integers(0, 500), pid=st.integers(1, 4_194_304))
def test_every_slice_is_tried_once_and_they_share_no_port(worker: int | None, pid: int) -> None:
    slices = slices_in_order(pool(""), {} if worker is None else {"PYTEST_XDIST_WORKER": f"gw{worker}"}, pid)
    assert len({port for ports in slices for port in ports}) == sum(len(ports) for ports in slices) == 12_000
    assert slices[0][0] == 20_000 + SLICE * ((pid if worker is None else worker) % 48)


def test_a_slice_that_another_has_is_left_to_it() -> None:
    both = [ASIDE[:SLICE], ASIDE[SLICE:]]
    first, second = claim_slice(both), claim_slice(both)
    try:
        assert set(first.take(SLICE // 2)).isdisjoint(second.take(SLICE // 2))
        with pytest.raises(Refused) as caught:
            claim_slice(both)
        assert caught.value.facts == {"slices": 2}
    finally:
        first.close()
        second.close()


@pytest.fixture
def aside() -> Iterator[PortSlice]:
    found = PortSlice(ASIDE[:5])
    yield found
    found.close()


def test_a_port_that_something_listens_on_is_left_out_and_no_port_comes_again_soon(aside: PortSlice) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, ASIDE[2]))
        assert aside.take(2) == [ASIDE[1], ASIDE[3]]
        assert aside.take(2) == [ASIDE[4], ASIDE[1]]
        with pytest.raises(Refused) as caught:
            aside.take(4)
        assert caught.value.facts == {"free": 3, "wanted": 4}
    assert sorted(aside.take(4)) == list(ASIDE[1:5])


def test_two_processes_at_once_are_given_different_ports() -> None:
    """Both are the same worker of two test runs, so both try the same slice first."""
    program = "from embedded.ports import free_ports; print(*free_ports(20), flush=True); input()"
    paths = os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTEST_XDIST_WORKER": "gw7"}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT
        )
        for _ in range(2)
    ]
    try:
        ports = [int(port) for one in running if one.stdout for port in one.stdout.readline().split()]
    finally:
        for one in running:
            one.communicate("\n", timeout=60)
    assert len(set(ports)) == 40


def test_free_ports_differ_can_be_bound_and_are_not_the_kernels_to_give() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert set(ports).isdisjoint(free_ports(20))
    assert set(ports) <= set(pool(EPHEMERAL.read_text() if EPHEMERAL.exists() else ""))
    for port in ports:
        assert require_free(port, "this test") == port


def test_taken_port_is_refused_by_its_number_and_purpose() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Refused) as caught:
            require_free(port, "the broker")
        assert caught.value.facts == {"port": port}
    assert require_free(port, "the broker") == port
