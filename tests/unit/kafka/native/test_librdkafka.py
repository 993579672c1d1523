"""When compiled code is used, and when it is not."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import zipfile

import pytest

from streams_recovery.engine.spark_home import build_package
from streams_recovery.kafka.native import library, librdkafka
from streams_recovery.kafka.native.library import SWITCH, NativeUnusable, library_name, row_hashes, source_number
from streams_recovery.kafka.native.librdkafka import Message, Native, native


@pytest.fixture
def untried():
    for cached in (librdkafka._tried_out, library._loaded):
        cached.cache_clear()
    yield
    for cached in (librdkafka._tried_out, library._loaded):
        cached.cache_clear()


def test_it_is_used_here():
    """Without it every other test would pass all the same."""
    assert isinstance(native(), Native)
    assert native() is native(), "tried out once a process"
    assert row_hashes() is not None


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setenv(SWITCH, "off")
    assert (native(), row_hashes()) == (None, None)


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize(
    ("module", "name", "value", "why"),
    [
        (librdkafka, "VERSIONS", (0x03000000, 0x04000000), "was never tried"),
        (library, "source_number", lambda _: 5, "compiled from another source"),
        (library, "library_name", lambda _: "gather-of-no-machine.so.1", "has no gather-of-no-machine.so.1"),
        (librdkafka, "_GATHER", {**librdkafka._GATHER, "new_function": (None,)}, "a function is missing"),
        (librdkafka, "_librdkafka", lambda: ctypes.CDLL("/nowhere"), "/nowhere"),
    ],
)
def test_what_does_not_fit_is_not_used_and_said_once(monkeypatch, caplog, module, name, value, why):
    monkeypatch.setattr(module, name, value)
    with caplog.at_level(logging.WARNING):
        assert (native(), native()) == (None, None)
    assert (row_hashes() is None) == (module is library)
    (told,) = caplog.messages
    assert why in told
    assert "takes about twice as long" in told


@pytest.mark.usefixtures("untried")
def test_a_python_without_files_in_memory_goes_without(monkeypatch, caplog):
    monkeypatch.setattr(library, "__file__", "/package.zip/library.py")
    monkeypatch.delattr(os, "memfd_create")
    with caplog.at_level(logging.WARNING):
        assert native() is None
    assert "without memfd_create" in caplog.text


class OtherMessage(ctypes.Structure):
    """Key and payload in the other order."""

    _fields_ = [*Message._fields_[:3], *Message._fields_[5:7], *Message._fields_[3:5], *Message._fields_[7:]]


def test_a_structure_with_another_layout_is_found_out(monkeypatch):
    found = native()
    monkeypatch.setitem(librdkafka._FUNCTIONS, "event_message_next", (ctypes.POINTER(OtherMessage), ctypes.c_void_p))
    with pytest.raises(NativeUnusable, match="other structures here"):
        librdkafka._try_out(Native(librdkafka._librdkafka(), library.ours()))
    assert native() is found


def test_a_worker_uses_it_out_of_the_package_of_a_job(tmp_path):
    package = build_package(tmp_path)
    names = zipfile.ZipFile(package).namelist()
    assert {f"streams_recovery/kafka/native/{library_name(machine)}" for machine in ("x86_64", "aarch64")} <= set(names)
    program = "from streams_recovery.kafka.native import librdkafka as one, library as other; print(one.__file__, one.native() and other.row_hashes() and True)"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(package)}, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    file, used = done.stdout.split()
    assert file.startswith(str(package))
    assert (used, done.stderr) == ("True", "")


def test_the_number_of_a_source_is_the_beginning_of_its_hash():
    assert source_number(b"") == 0xE3B0C44298FC1C14
