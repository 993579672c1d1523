"""The allow-list for names, and the rules that say which topics belong to an application.

Every name from outside must follow Kafka's rule for topic names ([a-zA-Z0-9._-], at most 249 characters, neither "." nor ".."). In addition it must
not begin with a dash, so that it is never read as an option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache
from typing import Final

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import StoreKind, TopicRole

NAME: Final = r"[a-zA-Z0-9._][a-zA-Z0-9._-]{0,248}"
_ALLOWED = re.compile(NAME)
# Auto-named foreign-key join topics have no "-repartition" suffix although they are repartition topics (KTableImpl#TOPIC_SUFFIX).
_FOREIGN_KEY_TOPIC = re.compile(
    r"-(KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+|.*subscription-(registration|response))-topic\Z"
)

_JOIN_STORE = "-subscription-store"
# What Kafka Streams calls stores and repartition topics that were given no name.
_GENERATED = re.compile(r"(COGROUP)?(KSTREAM|KTABLE)-[A-Z][A-Z-]*-\d{10}(-store)?")


def checked_name(what: str, name: str) -> str:
    """``name`` itself when it is on the allow-list. Raises ``ConfigInvalid``."""
    if not is_name(name):
        raise ConfigInvalid(
            f"{what} {name[:60]!r} is not allowed",
            next_step="use 1 to 249 of the characters a-z A-Z 0-9 . _ - (not '.' or '..', no leading dash)",
            what=what,
        )
    return name


def is_name(name: str) -> bool:
    """True when ``name`` is on the allow-list."""
    return name not in (".", "..") and _ALLOWED.fullmatch(name) is not None


def matches_any(name: str, globs: tuple[str, ...]) -> bool:
    """True if one of ``globs`` is a pattern of ``name``, as in a shell and with regard to case."""
    return bool(globs) and _any_of(globs).match(name) is not None


@lru_cache(maxsize=16)
def _any_of(globs: tuple[str, ...]) -> re.Pattern[str]:
    # One pattern: a thousand globs are asked of ten thousand topics.
    return re.compile("|".join(map(translate, globs)))


def internal_role(topic: str, application_id: str, other_application_ids: Iterable[str] = ()) -> TopicRole | None:
    """The role that ``topic`` would have as an internal topic of exactly this application, None if its name is no such name.

    If ``orders`` and ``orders-eu`` are both known, ``orders-eu-totals-changelog`` belongs to the longer id. A name alone does not show which
    application a topic belongs to: ``attributed`` in ``core/savepoint/topology.py`` decides that.
    """
    rest = topic.removeprefix(f"{application_id}-")
    if rest == topic or longer_owner(topic, application_id, other_application_ids) is not None:
        return None
    # A store and a repartition topic have a name: "orders-totals-changelog" is no internal topic of "orders-totals".
    if rest.endswith("-changelog"):
        return TopicRole.CHANGELOG
    if rest.endswith("-repartition") or _FOREIGN_KEY_TOPIC.search(f"-{rest}"):
        return TopicRole.REPARTITION
    return None


def longer_owner(topic: str, application_id: str, other_application_ids: Iterable[str]) -> str | None:
    """The longest of these ids that is longer than ``application_id`` and whose internal topic this would be by its name. None if there is none."""
    longer = (other for other in other_application_ids if len(other) > len(application_id) and internal_role(topic, other) is not None)
    return max(longer, key=len, default=None)


def only_its_own(topic: str, application_id: str) -> bool:
    """True if no longer application id could be the beginning of this name of an internal topic: what follows the id is one word, or a name that
    Kafka Streams makes.
    """
    what = re.sub(r"-(changelog|repartition|topic)\Z", "", topic.removeprefix(f"{application_id}-"))
    return "-" not in what or _GENERATED.fullmatch(what) is not None


def read_beside(changelog: str) -> tuple[str, ...]:
    """Repartition topics of the same application that Kafka Streams names like this changelog: of an aggregation whose store was named, and of a named
    foreign-key join (KTableImpl).
    """
    name = changelog.removesuffix("-changelog")
    join = name.removesuffix(_JOIN_STORE)
    topics = () if join == name else (f"{join}-subscription-registration-topic", f"{join}-subscription-response-topic")
    return (f"{name}-repartition", *topics)


def store_name(changelog: str, application_id: str) -> str:
    """The name of the store of a changelog topic."""
    return changelog.removeprefix(f"{application_id}-").removesuffix("-changelog")


def store_kind(changelog: str, application_id: str, config: dict[str, str], declared: StoreKind | None) -> StoreKind:
    """The kind of a store: as declared by the user, otherwise as proven by its name and topic configuration, otherwise ``UNKNOWN``.

    Names of suppress buffers prove their kind. Kafka Streams sets ``min.compaction.lag.ms`` only for versioned stores
    (VersionedChangelogTopicConfig). Window and session stores share ``compact,delete`` and cannot be distinguished from outside; nor can a key-value
    store and a list store.
    """
    if declared is not None:
        return declared
    if "KTABLE-SUPPRESS-STATE-STORE" in changelog or store_name(changelog, application_id).startswith("suppress"):
        return StoreKind.SUPPRESS
    if config.get("cleanup.policy") == "compact" and "min.compaction.lag.ms" in config:
        return StoreKind.VERSIONED
    return StoreKind.UNKNOWN
