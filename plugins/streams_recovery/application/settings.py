"""How an application runs, as plain values: what the factory makes of the ``runs`` section."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPaths:
    """Paths of the application's HTTP interface below an instance's URL. None where it offers none. ``{store}`` in ``query`` stands for a
    store's name; ``close`` closes Kafka Streams before the program is ended. ``token_file`` holds the token that is sent with every request, None where
    none is asked for; ``allow_http`` lets plain http cross the network.
    """

    health: str
    pause: str | None
    resume: str | None
    query: str | None
    close: str | None
    token_file: str | None = None
    allow_http: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSettings:
    """One process: how it is started, where it answers, where its ``state.dir`` is."""

    name: str
    url: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    state_directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """All processes of one application. ``directory`` keeps their logs and what is known of their pids. ``start_timeout`` (seconds) bounds the
    wait for another call that starts or stops, and for an answer to a query.
    """

    application_id: str
    directory: Path
    working_directory: Path
    instances: tuple[InstanceSettings, ...]
    control: ControlPaths
    start_timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """Programs for every verb, as argument lists. None where the application cannot do it. ``timeout`` (seconds) bounds each run."""

    verbs: Mapping[str, tuple[str, ...] | None]
    environment: Mapping[str, str]
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """One service of a compose project that has one container: its HTTP address and its ``state.dir`` as mounted where this runs."""

    service: str
    url: str
    state_directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerComposeSettings:
    """The services of a compose project that are one application. ``docker`` is the client's argument list, None where no engine can be
    reached: then instances can be held and asked, but neither stopped nor started. ``directory`` keeps what is known of stops. ``timeout``
    (seconds) bounds each call.
    """

    application_id: str
    project: str
    docker: tuple[str, ...] | None
    services: tuple[ContainerSettings, ...]
    control: ControlPaths
    directory: str
    timeout: float
