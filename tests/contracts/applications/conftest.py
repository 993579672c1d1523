"""Applications of two instances: as processes, by programs of the user's own, in containers, and as pods of a control plane."""

from __future__ import annotations

import contextlib

import pytest

from streams_recovery.config.runs import KINDS
from tests.support.applications.rig import Rig
from tests.support.kubernetes.pod_rig import PodRig, running_cluster

# Pods are in tests of their own where they have no supervisor, no environment of one start and no directory of ours. It takes Go to build what runs them.
PODS = pytest.param("kubernetes", marks=pytest.mark.deep)
# Each call of the stand-in for the docker client is two processes: what is the same for all kinds is told by the quicker ones in each run.
DOCKER = pytest.param("docker", marks=pytest.mark.deep)
SPEAKING = tuple(kind for kind in KINDS if kind != "kubernetes")
# Processes without an HTTP interface: what nobody can ask of them, they need not do.
HERE = (*SPEAKING, "silent")


@contextlib.contextmanager
def rigs(kind, directory, request=None):
    made = []

    def make(**settings):
        place = directory / str(len(made))
        made.append(PodRig(request.getfixturevalue("cluster"), place, **settings) if kind == "kubernetes" else Rig(kind, place, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    with running_cluster(tmp_path_factory.mktemp("control-plane")) as found:
        yield found


@pytest.fixture(params=HERE)
def rig(request, tmp_path):
    with rigs(request.param, tmp_path) as make:
        yield make


@pytest.fixture(params=SPEAKING)
def speaking_rig(request, tmp_path):
    """Those that can be asked how they are, and to pause."""
    with rigs(request.param, tmp_path) as make:
        yield make


@pytest.fixture(params=[*SPEAKING, DOCKER])
def speaking_directory_rig(request, tmp_path):
    """Those of them whose state is in directories that this sees."""
    with rigs(request.param, tmp_path) as make:
        yield make


@pytest.fixture
def silent(tmp_path):
    with rigs("silent", tmp_path) as make:
        yield make


@pytest.fixture(params=[*HERE, DOCKER])
def directory_rig(request, tmp_path):
    """Those whose state is in directories that this sees."""
    with rigs(request.param, tmp_path) as make:
        yield make


@pytest.fixture(params=[*SPEAKING, DOCKER, PODS])
def any_rig(request, tmp_path):
    with rigs(request.param, tmp_path, request) as make:
        yield make


@pytest.fixture
def pods(request, tmp_path):
    with rigs("kubernetes", tmp_path, request) as make:
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
