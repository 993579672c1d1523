"""Applications of two instances: as processes, by programs of the user's own, and in containers."""

from __future__ import annotations

import contextlib

import pytest

from streams_recovery.config.runs import KINDS
from tests.support.applications.rig import Rig


@contextlib.contextmanager
def rigs(kind, directory):
    made = []

    def make(**settings):
        made.append(Rig(kind, directory / str(len(made)), **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(params=KINDS)
def rig(request, tmp_path):
    with rigs(request.param, tmp_path) as make:
        yield make


@pytest.fixture(params=[*KINDS, "docker"])
def any_rig(request, tmp_path):
    with rigs(request.param, tmp_path) as make:
        yield make


@pytest.fixture
def local(tmp_path):
    """A rig for what only processes can do."""
    with rigs("process", tmp_path) as make:
        yield make


@pytest.fixture
def docker(tmp_path):
    with rigs("docker", tmp_path) as make:
        yield make
