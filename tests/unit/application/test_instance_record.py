"""What is known of an instance's process: how it ended, whose record it is, and whether it lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.application import instance_record
from streams_recovery.application.instance_record import (
    NO_SUPERVISOR,
    Ended,
    InstanceFiles,
    Place,
    Process,
    Started,
    StopRequest,
    birth,
    members_of,
    session_of,
)
from streams_recovery.application.port import InstanceState
from streams_recovery.application.process import _look_at
from streams_recovery.core.errors import ApplicationNotReady, Damaged

ASKED = StopRequest(run="r", by="somebody", at=1, state_before="RUNNING", reported_closed=None)
CLEAN = Ended(run="r", status=143, left_behind=0, stop_request=ASKED, at=2)


def ended(**changes):
    return replace(CLEAN, **changes)


@given(
    status=st.integers(-31, 255),
    left=st.integers(0, 2),
    before=st.sampled_from([None, "RUNNING", "REBALANCING", "PAUSED", "ERROR", "PENDING_ERROR", "NOT_RUNNING"]),
    requested=st.booleans(),
    said=st.sampled_from([None, True, False]),
)
def test_clean_needs_everything_at_once(status, left, before, requested, said):
    end = ended(
        status=status, left_behind=left, stop_request=replace(ASKED, state_before=before, reported_closed=said) if requested else None
    )
    wanted = (
        requested and status in (0, 143) and left == 0 and said is not False and before not in ("ERROR", "PENDING_ERROR", "NOT_RUNNING")
    )
    assert end.clean is wanted


def test_a_signal_is_not_an_exit_status():
    # A JVM that closed says 143. One that the signal itself ended ran no shutdown hook.
    assert not ended(status=-signal.SIGTERM).clean
    assert str(ended(status=-9, stop_request=None)) == "killed by SIGKILL, not asked to"
    assert str(CLEAN) == "exit status 143, asked by somebody"


def test_records_of_another_run_are_not_read(tmp_path):
    files = InstanceFiles(tmp_path, "one")
    files.home.mkdir()
    assert (files.started(), files.stop_request("r"), files.ended("r")) == (None, None, None)
    here = Process(pid=1, born="b")
    started = Started(run="r", place=Place(host="h", boot="b", namespace="n"), supervisor=here, process=here, at=1)
    for record in (started, ASKED, CLEAN):
        files.write(record)
    assert (files.started(), files.stop_request("r"), files.ended("r")) == (started, ASKED, CLEAN)
    assert (files.stop_request("s"), files.ended("s")) == (None, None)
    assert sorted(path.name for path in files.home.iterdir()) == ["ended.json", "started.json", "stop-requested.json"]


def test_a_second_request_keeps_what_the_first_one_found(tmp_path):
    """It finds an instance that closes, or has closed."""
    files = InstanceFiles(tmp_path, "one")
    files.ask_to_stop("r", "RUNNING", reported_closed=False)
    files.ask_to_stop("r", "NOT_RUNNING", reported_closed=True)
    assert (found := files.stop_request("r")) is not None
    assert (found.state_before, found.reported_closed) == ("RUNNING", True)
    files.ask_to_stop("s", "ERROR", reported_closed=None)
    assert (found := files.stop_request("s")) is not None
    assert (found.state_before, found.reported_closed) == ("ERROR", None)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"run": 1}', b"[]"])
def test_a_record_that_cannot_be_read_is_damaged_not_absent(tmp_path, content):
    files = InstanceFiles(tmp_path, "one")
    files.home.mkdir()
    (files.home / "started.json").write_bytes(content)
    with pytest.raises(Damaged, match=r"started\.json"):
        files.started()


def test_birth_tells_processes_apart_and_zombies_are_dead():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = Process(pid=child.pid, born=birth(child.pid) or "")
    assert process.alive
    assert not Process(pid=child.pid, born=birth(os.getpid()) or "").alive
    child.stdin.close()
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert birth(child.pid) is None
        assert session_of(process) == ()
    child.wait()
    assert not process.alive
    process.signal(signal.SIGKILL)


def test_only_the_very_process_is_signalled():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    try:
        Process(pid=child.pid, born="another birth").signal(signal.SIGKILL)
        assert child.poll() is None
        Process(pid=child.pid, born=birth(child.pid) or "").signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()


HERE = Place(host="a", boot="boot-1", namespace="pid:[1]")


@pytest.mark.parametrize(
    ("recorded", "visible"),
    [
        (HERE, True),
        (replace(HERE, host="renamed"), True),
        (replace(HERE, boot="boot-0"), True),
        (replace(HERE, namespace="pid:[2]"), True),
        (replace(HERE, host="b", boot="boot-2"), False),
        (replace(HERE, host="b", namespace="pid:[2]"), False),
        (Place(host="b", boot="", namespace=""), False),
    ],
)
def test_where_a_missing_pid_proves_an_end(recorded, visible):
    assert recorded.visible_from(HERE) is visible


def test_two_systems_without_boot_ids_are_told_apart_by_name():
    assert not Place(host="b", boot="", namespace="").visible_from(Place(host="a", boot="", namespace=""))


def test_a_lock_is_held_by_one_and_inherited(tmp_path):
    path = tmp_path / "made" / "lock"
    assert not instance_record.is_held(path)
    with instance_record.held(path, seconds=0) as handle:
        assert instance_record.is_held(path)
        with pytest.raises(ApplicationNotReady), instance_record.held(path, seconds=0.1):
            pass
        heir = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(handle,))
    assert instance_record.is_held(path)
    heir.stdin.close()
    heir.wait()
    assert not instance_record.is_held(path)


def a_session_without_its_leader():
    """A leader that has ended, and the one process of its session that goes on."""
    script = "import subprocess, sys\nprint(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid, flush=True)"
    leader = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, stdout=subprocess.PIPE)
    born = birth(leader.pid) or ""
    pid = int(leader.stdout.readline())
    leader.wait()
    return Process(pid=leader.pid, born=born), Process(pid=pid, born=birth(pid) or "")


def test_of_a_leader_that_has_ended_only_what_can_be_its_own_counts():
    """The number of an ended leader may have been another one's since, whose session goes on without it."""
    leader, left = a_session_without_its_leader()
    try:
        assert session_of(leader) == (left,)
        boot, _, start = left.born.partition("/")
        assert session_of(replace(leader, born=f"{boot}/{int(start) + 1}")) == (), "it began before this leader"
        assert session_of(replace(leader, born=f"an earlier boot/{leader.born.partition('/')[2]}")) == ()
        here = Place(host="h", boot="b", namespace="n")
        assert members_of(Started(run="r", place=here, supervisor=left, process=leader, at=1)) == (left,)
        assert members_of(Started(run="r", place=here, supervisor=NO_SUPERVISOR, process=leader, at=1)) == ()
        assert members_of(Started(run="r", place=here, supervisor=NO_SUPERVISOR, process=left, at=1)) == (left,)
    finally:
        left.signal(signal.SIGKILL)


# Its first thread ends, and the process goes on in another one, which says so.
OUTLIVED = """
import ctypes, os, threading
libc, first = ctypes.CDLL(None), ctypes.c_void_p(threading.get_ident())
def go_on():
    libc.pthread_join(first, None)
    print("alone", flush=True)
    os.read(0, 1)
threading.Thread(target=go_on).start()
libc.pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_lives_until_the_others_have():
    child = subprocess.Popen([sys.executable, "-c", OUTLIVED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert child.stdout.readline() == b"alone\n"
        process = Process(pid=child.pid, born=birth(child.pid) or "")
        assert process.alive
        assert session_of(process) == (process,)
        process.signal(signal.SIGKILL)
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
            assert birth(child.pid) is None, "no thread is left"
    finally:
        child.kill()
        child.communicate()
    assert not process.alive


@pytest.mark.fault("F100")
def test_a_run_whose_supervisor_waits_is_not_gone_whatever_can_be_seen_of_it(tmp_path, monkeypatch):
    """A program of another user under ``/proc`` with ``hidepid``: none of its processes is seen, and its supervisor has written no end."""
    monkeypatch.setattr("streams_recovery.application.process._RECORD_SECONDS", 0.0)
    files = InstanceFiles(tmp_path, "one")
    ended = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    ended.wait()
    unseen = Process(pid=ended.pid, born="somebody else's")
    run = Started(run="r", process=unseen, supervisor=Process.current(), place=Place.here(), at=1)
    found = _look_at(files, run)
    assert (found.state, "recorded no end" in found.detail) == (InstanceState.UNKNOWN, True)
    alone = replace(run, supervisor=unseen)
    assert _look_at(files, alone).state is InstanceState.GONE


@pytest.mark.fault("F100")
def test_a_process_that_may_not_be_seen_is_not_called_dead(tmp_path):
    """As another user, and with a ``/proc`` that shows nothing of process 1."""
    script = f"""
import os
from pathlib import Path
from streams_recovery.application import instance_record
instance_record._PROC = Path({str(tmp_path)!r})
if os.getuid() == 0:
    os.setuid(65534)
print(instance_record.is_hidden(instance_record.Process(pid=1, born="x")))
print(instance_record.is_hidden(instance_record.Process(pid=4194305, born="x")))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "False"], done.stderr
