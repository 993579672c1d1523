"""The ``sites`` section: other clusters that the application can run on, and how it runs there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from streams_recovery.config.fields import ConnectionId, Integer, Section, TopicName, named
from streams_recovery.config.runs import Runs, StartingKind
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.savepoint.topology import Topics

# No application has more; every start asks each of them.
MOST_SITES: Final = 8


def _site_name(value: str) -> str:
    if value == PRIMARY:
        raise ValueError(f"{PRIMARY} is the site that the rest of the file describes; give the other one another name")
    return named("site")(value)


SiteName = Annotated[str, AfterValidator(_site_name)]


class Site(Section):
    """Another cluster. ``topic_map`` has the names of inputs, outputs and globals that are called otherwise there. Topics that a restore creates there have
    ``replication_factor`` replicas, as many as in the savepoint without it. Of inputs, ``same_offsets`` are carried there with their offsets, and
    ``committed_only`` by a mirror that reads committed records alone.
    """

    connection: ConnectionId
    runs: Runs
    topic_map: dict[TopicName, TopicName] = Field(default_factory=dict)
    replication_factor: Annotated[Integer, Field(ge=1, le=100)] | None = None
    same_offsets: tuple[TopicName, ...] = ()
    committed_only: tuple[TopicName, ...] = ()

    def called(self, topics: Iterable[str]) -> tuple[str, ...]:
        """The names of these topics there."""
        return tuple(self.topic_map.get(topic, topic) for topic in topics)


def names_at(sites: Mapping[str, Site], site: str, topic_map: Mapping[str, str]) -> dict[str, str]:
    """The names at ``site`` of topics of savepoints that were taken at any other one. ``topic_map`` is that of ``restore``, which is for savepoints of the
    primary site alone.
    """
    here = sites[site].topic_map if site in sites else topic_map
    names = dict(here)
    for other, section in sites.items():
        if other != site:
            names |= {there: here.get(topic, topic) for topic, there in section.topic_map.items() if there != here.get(topic, topic)}
    return names


def site_problems(
    internal_role: Callable[[str], object], topics: Topics, runs: Runs, connection: str, sites: Mapping[str, Site]
) -> list[str]:
    """Everything that would let one site touch another one, or mix up their topics. ``internal_role`` is that of the application."""
    found = [f"sites: {len(sites)} of them, and there can be {MOST_SITES}"] if len(sites) > MOST_SITES else []
    connections = Counter([connection, *(site.connection for site in sites.values())])
    before = {PRIMARY: runs}
    for name, site in sites.items():
        where = f"sites.{name}"
        if connections[site.connection] > 1:
            found.append(f"{where}.connection: {site.connection} is that of another site as well; a site is a cluster of its own")
        found += _topic_problems(where, internal_role, topics, site)
        for other in before.values():
            found += _shared(where, other, site.runs)
        before[name] = site.runs
    return found


def _topic_problems(where: str, internal_role: Callable[[str], object], topics: Topics, site: Site) -> Iterable[str]:
    declared = topics.declared
    for key in ("same_offsets", "committed_only"):
        for name in getattr(site, key):
            if not topics.reads(name):
                yield f"{where}.{key}: {name} is no input of this application"
    for name, there in site.topic_map.items():
        if name not in declared:
            yield f"{where}.topic_map: {name} is no topic of this application"
        if internal_role(there):
            yield f"{where}.topic_map: {there} is the name of an internal topic"
    for name, count in Counter(site.called(declared)).items():
        if count > 1:
            yield f"{where}.topic_map: {name} would stand for {count} topics there"


def _shared(where: str, one: Runs, other: Runs) -> Iterable[str]:
    own, there = one.chosen, other.chosen
    shared = [*own.shared_with(there, where)] if isinstance(own, StartingKind) and type(there) is type(own) else []
    if not shared and own.is_as(there):
        return [f"{where}.runs: it is how another site runs, so nobody could tell which of the two does"]
    return shared
