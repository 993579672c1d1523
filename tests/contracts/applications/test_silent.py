"""Processes without an HTTP interface, and processes that were not started from here: found with proof, ended by a signal, never taken for another one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from pydantic import ValidationError

from streams_recovery.application.found_process import NOT_THERE, by_command_line, by_pid_file
from streams_recovery.application.instance_record import Process, birth
from streams_recovery.config.runs import Runs, SandboxProcess
from streams_recovery.core.errors import ApplicationRunning, ConfigInvalid, Refused
from streams_recovery.core.preflight.findings import PreflightSeverity
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.operations.draft import of_process, running_process
from tests.support.applications.rig import APPLICATION_ID, PROGRAM, gone, wait
from tests.support.applications.states import GONE, RUNNING, UNKNOWN, clean, started, states

# Ended by itself should a test be killed. The number makes each command line another one.
IDLE = "import sys, time\ntime.sleep(120)"


def idle(*marks):
    return [sys.executable, "-c", IDLE, *marks]


@pytest.fixture
def others():
    """Programs that somebody else has started."""
    made = []

    def start(argv, **more):
        made.append(subprocess.Popen(argv, start_new_session=True, **more))
        wait(lambda: birth(made[-1].pid) is not None)
        return made[-1]

    yield start
    for one in made:
        one.kill()
        one.wait()


def reaped(process):
    """Wait for the end of a child of ours: a zombie is gone for whoever looks, and reaping it is the parent's work."""
    return process.wait(timeout=15)


def test_it_says_nothing_is_stopped_by_a_signal_and_seen_to_end(silent):
    one = silent()
    application = started(one)
    assert not application.can_pause
    assert [(s.state, s.streams_state, s.silent) for s in application.status()] == [(RUNNING, None, True), (RUNNING, None, True)]
    with pytest.raises(Refused, match="no way to pause"):
        application.pause()
    application.resume()
    with pytest.raises(Refused, match="no queries"):
        application.query("totals")
    report = application.stop(timeout=10)
    assert (report.clean, [s.stopped_here for s in report.instances]) == (True, [True, True])


def test_a_port_of_which_one_instance_is_silent_asks_none_to_pause(local):
    one = local()
    one.section["instances"][1].pop("url")
    one.section["instances"][1]["environment"] = {"PORT": one.urls[1].rpartition(":")[2]}
    application = started(one)
    assert [s.streams_state for s in application.status()] == ["RUNNING", None]
    assert not application.can_pause
    with pytest.raises(Refused):
        application.pause()
    assert application.stop(timeout=10).clean


def test_instances_with_addresses_and_no_path_for_their_state_are_silent_too(local):
    one = local()
    one.section["control"] = {**one.section.get("control", {}), "health": None}
    application = started(one)
    assert [(s.state, s.streams_state, s.silent) for s in application.status()] == [(RUNNING, None, True), (RUNNING, None, True)]
    application.stop(timeout=10)


@pytest.mark.parametrize("by", ["pid file", "command line"])
def test_one_that_was_not_started_from_here_is_found_stopped_and_never_called_clean(silent, others, by):
    one = silent()
    one.section["running_as"] = idle("{name}") if by == "command line" else None
    program = others(idle("one"))
    if by == "pid file":
        file = one.directory / "one.pid"
        file.write_text(f"{program.pid}\n")
        one.section["instances"][0]["pid_file"] = str(file)
    application = one.open()
    assert states(application) == [RUNNING, GONE]
    assert f"pid {program.pid} by" in application.status()[0].detail
    with pytest.raises(ApplicationRunning, match="not started from here"):
        application.wipe_state()
    report = application.stop(timeout=10)
    assert reaped(program) == -signal.SIGTERM
    assert (report.gone, clean(report), report.instances[0].stopped_here) == (True, [False, False], True)
    assert states(one.open()) == [GONE, GONE]
    one.section["running_as"] = None
    assert started(one).stop(timeout=10).clean, "what is started from here is seen to end"


def test_a_start_leaves_alone_what_runs_already(silent, others):
    one = silent()
    one.section["running_as"] = idle("{name}")
    program = others(idle("one"))
    one.open().start()
    wait(lambda: one.files("two").started() is not None)
    assert one.files("one").started() is None
    assert program.poll() is None


def test_who_does_not_end_by_sigterm_is_killed(silent, others):
    one = silent()
    deaf = [sys.executable, "-c", f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\n{IDLE}", "one"]
    one.section["running_as"] = [*deaf[:-1], "{name}"]
    program = others(deaf, stdout=subprocess.PIPE)
    assert program.stdout.readline() == b"up\n"
    report = one.open().stop(timeout=1)
    assert reaped(program) == -signal.SIGKILL
    assert (report.gone, clean(report)) == (True, [False, False])


def test_a_pid_file_that_is_older_than_the_process_names_none(silent, others):
    one = silent()
    somebody = others(idle("somebody"))
    file = one.directory / "one.pid"
    file.write_text(str(somebody.pid))
    os.utime(file, (time.time() - 3600, time.time() - 3600))
    one.section["instances"][0]["pid_file"] = str(file)
    application = one.open()
    assert states(application) == [GONE, GONE]
    application.stop(timeout=1)
    assert somebody.poll() is None


@pytest.mark.parametrize(
    ("text", "mode", "doubt"),
    [("no pid", 0o600, "no pid in it"), ("1", 0o600, "no pid in it"), ("", 0o600, "no pid in it"), ("{pid}", 0o666, "others can write")],
)
def test_a_pid_file_that_proves_nothing_is_no_proof_of_an_end(silent, others, text, mode, doubt):
    one = silent()
    somebody = others(idle("somebody"))
    file = one.directory / "one.pid"
    file.write_text(text.format(pid=somebody.pid))
    file.chmod(mode)
    one.section["instances"][0]["pid_file"] = str(file)
    application = one.open()
    first = application.status()[0]
    assert (first.state, doubt in first.detail) == (UNKNOWN, True)
    with pytest.raises(ApplicationRunning):
        application.wipe_state()
    assert not application.stop(timeout=1).gone
    assert somebody.poll() is None


def named(directory, program):
    """A pid file that names this program."""
    file = directory / "one.pid"
    file.write_text(str(getattr(program, "pid", program)))
    return file


def only_root():
    if os.geteuid() != 0:
        pytest.skip("NOT checked: only root can do that")


@pytest.mark.parametrize("who", ["the file", "its directory"])
def test_a_pid_file_of_a_third_user_proves_nothing(others, tmp_path, who):
    only_root()
    file = named(tmp_path, others(idle()))
    assert by_pid_file(file).process is not None
    os.chown(file if who == "the file" else tmp_path, 65534, 65534)
    assert "user 65534's" in by_pid_file(file).doubt


def test_a_pid_file_that_others_can_replace_or_that_is_a_link_proves_nothing(others, tmp_path):
    file = named(tmp_path, others(idle()))
    link = tmp_path / "link.pid"
    link.symlink_to(file)
    assert "cannot be read" in by_pid_file(link).doubt
    for mode in (0o777, 0o770):
        tmp_path.chmod(mode)
        assert "others can replace" in by_pid_file(file).doubt
    tmp_path.chmod(0o1777)
    assert by_pid_file(file).process is not None


@pytest.mark.parametrize("whose", [os.getpid, os.getppid])
def test_a_pid_file_that_names_this_process_or_one_that_has_started_it_proves_nothing(tmp_path, whose):
    began = psutil.Process(whose()).create_time()
    file = named(tmp_path, whose())
    os.utime(file, (began + 1, began + 1))
    assert "is this process, or has started it" in by_pid_file(file).doubt


def test_a_pid_file_that_was_written_long_after_the_process_began_proves_nothing(others, tmp_path):
    file = named(tmp_path, others(idle()))
    later = time.time() + 700
    os.utime(file, (later, later))
    assert "600 s after" in by_pid_file(file).doubt


def test_a_pid_file_is_held_against_the_command_line_where_both_are_known(silent, others):
    one = silent()
    one.section["running_as"] = idle("{name}")
    somebody = others(idle("somebody"))
    one.section["instances"][0]["pid_file"] = str(named(one.directory, somebody))
    application = one.open()
    assert (states(application), "another command line" in application.status()[0].detail) == ([UNKNOWN, GONE], True)
    assert not application.stop(timeout=1).gone
    assert somebody.poll() is None


def test_a_process_in_a_pid_namespace_of_its_own_is_not_taken_for_one(others, tmp_path):
    only_root()
    argv = idle("apart")
    around = others(["unshare", "--pid", "--fork", "--kill-child", *argv])
    wait(lambda: [one for one in psutil.Process(around.pid).children() if one.cmdline() == argv])
    apart = psutil.Process(around.pid).children()[0].pid
    assert by_command_line(argv) == NOT_THERE
    assert "pid namespace" in by_pid_file(named(tmp_path, apart)).doubt
    here = others(argv)
    assert by_command_line(argv).process.pid == here.pid, "what runs apart is no second one"


@pytest.mark.parametrize("founds", [True, False], ids=["a session", "no session"])
def test_a_wrapper_is_not_ended_without_what_it_has_started(silent, others, founds):
    one = silent()
    child = f"import subprocess, sys\nprogram = subprocess.Popen({idle('child')!r})\nprint(program.pid, flush=True)\nprogram.wait()"
    started_by = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}], start_new_session={founds})"
    around = others([sys.executable, "-c", started_by], stdout=subprocess.PIPE)
    inner = int(around.stdout.readline())
    wrapper = psutil.Process(inner).ppid()
    one.section["instances"][0]["pid_file"] = str(named(one.directory, wrapper))
    application = one.open()
    first = application.status()[0]
    assert (first.state, f"has started pid {inner}" in first.detail) == (UNKNOWN, True)
    assert not application.stop(timeout=1).gone
    assert birth(wrapper)
    assert birth(inner)
    named(one.directory, inner)
    assert one.open().stop(timeout=10).gone
    wait(lambda: birth(inner) is None)


def test_what_a_unit_runs_is_not_ended_behind_its_back(others, tmp_path):
    groups = Path("/sys/fs/cgroup/unified") if Path("/sys/fs/cgroup/unified").is_dir() else Path("/sys/fs/cgroup")
    unit = groups / f"orders-{os.getpid()}.service"
    program = others(idle())
    try:
        unit.mkdir()
        (unit / "cgroup.procs").write_text(str(program.pid))
    except OSError as error:
        pytest.skip(f"NOT checked: no control group can be made here: {error}")
    try:
        assert f"unit {unit.name} runs it" in by_pid_file(named(tmp_path, program)).doubt
    finally:
        program.kill()
        program.wait()
        wait(lambda: not (unit / "cgroup.procs").read_text())
        unit.rmdir()


def test_a_command_line_that_two_processes_have_names_neither(silent, others):
    one = silent()
    one.section["running_as"] = idle("{name}")
    two = [others(idle("one")), others(idle("one"))]
    application = one.open()
    first = application.status()[0]
    assert first.state is UNKNOWN
    assert all(str(program.pid) in first.detail for program in two)
    assert application.stop(timeout=1).instances[0].state is UNKNOWN
    assert [program.poll() for program in two] == [None, None]


@pytest.mark.parametrize("argv", [["{0}x"], ["{0}", "more"], []], ids=["another argument", "one argument more", "one less"])
def test_only_the_exact_command_line_is_one(silent, others, argv):
    one = silent()
    one.section["running_as"] = idle("{name}")
    somebody = others(idle(*(text.format("one") for text in argv)))
    application = one.open()
    assert states(application) == [GONE, GONE]
    application.stop(timeout=1)
    assert somebody.poll() is None


def test_another_user_s_process_is_not_signalled(silent, others):
    if os.geteuid() != 0:
        pytest.skip("NOT checked: only root can start a program as somebody else")
    one = silent()
    script = (
        "import os, sys\n"
        "from streams_recovery.application.found_process import by_command_line\n"
        "os.setuid(65534)\n"
        "print(by_command_line(sys.argv[1:]).doubt)"
    )
    argv = idle("one")
    somebody = others(argv)
    told = subprocess.run([sys.executable, "-c", script, *argv], capture_output=True, text=True, check=True, timeout=60).stdout
    assert f"pid {somebody.pid} has its command line, and is another user's" in told
    assert somebody.poll() is None
    assert one.kind == "silent"


def test_a_program_that_leaves_its_session_is_seen_by_its_pid_file(silent):
    """As daemons do: what was started ends at once with 0, and the pid file names what goes on."""
    one = silent()
    file = one.directory / "one.pid"
    daemon = (
        "import os, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, {str(PROGRAM)!r}], start_new_session=True)\n"
        f"open({str(file)!r}, 'w').write(str(child.pid))\n"
    )
    one.section["command"] = [sys.executable, "-c", daemon]
    one.section["instances"] = one.section["instances"][:1]
    one.section["instances"][0]["pid_file"] = str(file)
    application = one.open()
    application.start()
    wait(lambda: states(application) == [RUNNING] and "not started from here" in application.status()[0].detail)
    pid = int(file.read_text())
    process = Process(pid=pid, born=birth(pid))
    report = application.stop(timeout=10)
    gone(process)
    assert (report.gone, clean(report)) == (True, [False])


def test_instances_that_one_command_line_would_find_are_refused(silent):
    one = silent()
    one.section["running_as"] = idle("same")
    with pytest.raises(ValidationError, match="nobody could tell them apart"):
        Runs.model_validate(one.runs())


def test_a_sandbox_is_never_found_by_the_command_line_of_the_application(silent, tmp_path):
    one = silent()
    one.section["running_as"] = idle("{name}")
    runs = Runs.model_validate(one.runs())
    sandbox = {"directory": str(tmp_path / "sandbox"), "instances": [{"name": "one", "state_directory": str(tmp_path / "scratch")}]}
    made = runs.chosen.in_sandbox(SandboxProcess.model_validate(sandbox))
    assert made.running_as is None
    assert APPLICATION_ID not in made.directory


def test_a_program_that_runs_is_known_by_its_connection_and_its_id(others):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def connected(*marks):
            code = f"import socket, time\none = socket.create_connection(('127.0.0.1', {port}))\ntime.sleep(120)"
            program = others([sys.executable, "-c", code, *marks])
            server.accept()[0].close()
            return program

        connection = KafkaConnection(bootstrap_servers=f"localhost:9, 127.0.0.1:{port}", properties={})
        stranger = connected("another-id")
        assert running_process(connection, "orders") is None, "a port may be another cluster's, and a process another application"
        program = connected("--id=orders")
        found = running_process(connection, "orders")
        assert (found.pid, found.shown.endswith("--id=orders"), found.state) == (program.pid, True, None)
        argv = psutil.Process(program.pid).cmdline()
        known = {"runs.process.running_as": argv, "runs.process.working_directory": str(Path.cwd())}
        assert of_process([str(program.pid)]) == of_process(program.pid) == known
        assert by_command_line(argv).process == Process(pid=program.pid, born=birth(program.pid))
        connected("--id=orders")
        assert running_process(connection, "orders") is None, "of two nobody knows which one it is"
    assert of_process([]) == {"runs.process.running_as": []}
    assert of_process(["java", "-jar", "x"]) == {"runs.process.running_as": ["java", "-jar", "x"]}
    stranger.kill()
    stranger.wait()
    with pytest.raises(ConfigInvalid, match="sees no process"):
        of_process(str(stranger.pid))


def test_state_that_a_restore_would_not_remove_is_found_while_it_is_open(silent, others, tmp_path):
    one = silent()
    application_id, real = APPLICATION_ID, tmp_path / "elsewhere"
    (real / application_id / "0_0").mkdir(parents=True)
    code = f"import time\nfile = open({str(real / application_id / '0_0' / 'x')!r}, 'w')\nprint(flush=True)\ntime.sleep(120)"
    program = others([sys.executable, "-c", code], stdout=subprocess.PIPE)
    program.stdout.readline()
    one.section["running_as"] = [sys.executable, "-c", code]
    one.section["instances"] = one.section["instances"][:1]
    application = one.open()
    [found] = application.preflight(stops=True, wipes=True)
    assert (found.kind, found.severity) == ("local-state", PreflightSeverity.BLOCKING)
    assert found.next_step == f"set state_directory of its instance to {real}"
    [unseen] = application.preflight(stops=True)
    assert (unseen.kind, unseen.severity, "take the first savepoint twice" in unseen.next_step) == (
        "unseen-end",
        PreflightSeverity.WARNING,
        True,
    )
    assert application.preflight(stops=False) == ()
    one.section["instances"][0]["state_directory"] = str(real)
    assert one.open().preflight(stops=True, wipes=True) == ()
