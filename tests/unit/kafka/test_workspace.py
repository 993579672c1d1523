from __future__ import annotations

import errno

import pytest

from streams_recovery.core.errors import Damaged, TransientError
from streams_recovery.kafka.workspace import workspace


def test_nothing_of_it_stays():
    with workspace("a test runs") as directory:
        (directory / "file").write_bytes(b"x")
    assert not directory.exists()


def test_a_full_disk_is_told_with_its_place_and_nothing_of_it_stays():
    told = pytest.raises(TransientError, match="orders-3 is copied: No space")
    with told as caught, workspace("orders-3 is copied") as directory:
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "TMPDIR" in caught.value.next_step
    assert caught.value.facts["directory"] == str(directory.parent)
    assert not directory.exists()


@pytest.mark.fault("F13")
def test_a_directory_that_vanished_is_told():
    with pytest.raises(TransientError, match="No such file or directory"), workspace("a test runs") as directory:
        directory.rmdir()
        (directory / "file").write_bytes(b"x")


def test_errors_that_are_no_disk_s_pass():
    with pytest.raises(Damaged), workspace("a test runs"):
        raise Damaged("other", next_step="none")
