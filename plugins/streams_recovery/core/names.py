"""The allow-list for names, and the rules that say which topics belong to an application.

Every name from outside must follow Kafka's rule for topic names ([a-zA-Z0-9._-], at most 249 characters, neither "." nor ".."). In addition it must
not begin with a dash, so that it is never read as an option.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from fnmatch import translate
from functools import lru_cache
from math import inf
from re import _parser  # type: ignore[attr-defined]  # what a pattern consists of; there is no other way to ask
from typing import Any, Final, TypeVar

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import StoreKind, TopicRole
from streams_recovery.core.words import first_names

T = TypeVar("T")
LONGEST_NAME: Final = 249
NAME: Final = r"[a-zA-Z0-9._][a-zA-Z0-9._-]{0,248}"
_ALLOWED = re.compile(NAME)
# Auto-named foreign-key join topics have no "-repartition" suffix although they are repartition topics (KTableImpl#TOPIC_SUFFIX).
_FOREIGN_KEY_TOPIC = re.compile(
    r"-(KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+|.*subscription-(registration|response))-topic\Z"
)

# Never read by pattern (exclude.internal.topics is true by default).
_OF_KAFKA = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_JOIN_STORE = "-subscription-store"
# What stands behind the application id in a transactional id: the process, and the number of the thread.
_OF_A_THREAD: Final = r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+"
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


def each_once(shown: str, given: Collection[T]) -> Collection[T]:
    """Names or numbers that were ``given`` for one option, ``shown`` to a person as such. Raises ``ConfigInvalid`` for one that is there twice: a slip of the
    hand, in place of another name.
    """
    twice = [str(one) for one, count in Counter(given).items() if count > 1]
    if twice:
        raise ConfigInvalid(f"{shown} has {first_names(twice)} more than once", next_step="give each one once", names=twice)
    return given


def is_name(name: str) -> bool:
    """True when ``name`` is on the allow-list."""
    return name not in (".", "..") and _ALLOWED.fullmatch(name) is not None


def one_for_kafka(names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Names of topics that cannot be on one cluster together, because names of metrics have no dots: those that differ in ``.`` and ``_`` alone."""
    alike: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        alike.setdefault(name.replace(".", "_"), []).append(name)
    return tuple(tuple(same) for same in alike.values() if len(same) > 1)


def matches_any(name: str, globs: tuple[str, ...]) -> bool:
    """True if one of ``globs`` is a pattern of ``name``, as in a shell and with regard to case."""
    return bool(globs) and _any_of(globs).match(name) is not None


@lru_cache(maxsize=16)
def _any_of(globs: tuple[str, ...]) -> re.Pattern[str]:
    # One pattern: a thousand globs are asked of ten thousand topics.
    return re.compile("|".join(map(translate, globs)))


def matches_pattern(topic: str, patterns: Iterable[str]) -> bool:
    """True if an application that subscribes to ``patterns`` reads ``topic``: the whole name has to match one (Kafka's ``subscribe(Pattern)``)."""
    return topic not in _OF_KAFKA and any(re.fullmatch(pattern, topic) is not None for pattern in patterns)


def pattern_steps(pattern: str) -> float:
    """The most ways in which ``re`` tries to match a pattern with one topic name: infinite for repetitions within repetitions, which may grow with every
    character. Raises ``re.error`` for what is no pattern.
    """
    return _steps(list(_parser.parse(pattern)), is_last=True)


def _steps(parsed: Sequence[tuple[Any, Any]], *, is_last: bool) -> float:
    """The ways of a sequence that the parser of ``re`` has found; the last of all has to take the rest of the name, however long it is."""
    ways = 1.0
    for number, (kind, content) in enumerate(parsed):
        behind = parsed[number + 1 :]
        ends = is_last and not behind
        if kind is _parser.BRANCH:
            ways *= sum(_steps(list(one), is_last=ends) for one in content[1])
        elif kind is _parser.SUBPATTERN:
            ways *= _steps(list(content[-1]), is_last=ends)
        elif kind in (_parser.ASSERT, _parser.ASSERT_NOT):
            ways *= 1 + _steps(list(content[1]), is_last=False)
        elif kind in (_parser.MAX_REPEAT, _parser.MIN_REPEAT, _parser.POSSESSIVE_REPEAT):
            least, most, body = content
            inner, lengths = _steps(list(body), is_last=False), min(int(most), LONGEST_NAME) - least + 1
            if inner > 1:
                # What may be read in several ways, again and again; once or not at all is one way more.
                ways *= inner + 1 - least if most == 1 else inf
            elif not (len(body) == 1 and (ends or _ends_at(body[0], behind))):
                ways *= max(1, lengths)
        elif kind in (_parser.ATOMIC_GROUP, _parser.GROUPREF, _parser.GROUPREF_EXISTS):
            # How much these take depends on what was read before them.
            ways *= LONGEST_NAME
    return ways


def _ends_at(one: tuple[Any, Any], behind: Sequence[tuple[Any, Any]]) -> bool:
    """True when repeated characters end where the next thing begins, and nowhere else: a literal that is not one of them."""
    if not behind or behind[0][0] is not _parser.LITERAL:
        return False
    # A pattern may be for both cases.
    literals, (kind, content) = {behind[0][1], *map(ord, chr(behind[0][1]).swapcase())}, one
    if kind is _parser.LITERAL:
        return content not in literals
    if kind is _parser.NOT_LITERAL:
        return literals == {content}
    simple = kind is _parser.IN and all(what in (_parser.LITERAL, _parser.RANGE) for what, _ in content)
    return simple and not any(
        value in literals if what is _parser.LITERAL else any(value[0] <= each <= value[1] for each in literals) for what, value in content
    )


def internal_role(topic: str, application_id: str) -> TopicRole | None:
    """The role that ``topic`` would have as an internal topic of exactly this application, None if its name is no such name.

    A name alone does not show which application a topic belongs to: ``attributed`` in ``core/savepoint/topology.py`` decides that.
    """
    rest = topic.removeprefix(f"{application_id}-")
    if rest == topic:
        return None
    # A store and a repartition topic have a name: "orders-totals-changelog" is no internal topic of "orders-totals".
    if rest.endswith("-changelog"):
        return TopicRole.CHANGELOG
    if rest.endswith("-repartition") or _FOREIGN_KEY_TOPIC.search(f"-{rest}"):
        return TopicRole.REPARTITION
    return None


def internal_examples(application_id: str) -> tuple[str, ...]:
    """Possible names of internal topics of this application, one of each role: a pattern that matches one of them matches more than inputs."""
    return f"{application_id}-store-changelog", f"{application_id}-store-repartition"


def longer_owner(topic: str, application_id: str, other_application_ids: Iterable[str]) -> str | None:
    """The longest of these ids that is longer than ``application_id`` and whose internal topic this would be by its name. None if there is none.

    If ``orders`` and ``orders-eu`` are both known, ``orders-eu-totals-changelog`` belongs to the longer id.
    """
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


def own_transactions(application_id: str) -> re.Pattern[str]:
    """The transactional ids of an application: ``{application.id}-{process id}-{thread}`` (ActiveTaskCreator). The id alone as a prefix would also match other
    applications.
    """
    return re.compile(re.escape(application_id) + _OF_A_THREAD)


def application_of(transactional_id: str) -> str | None:
    """The application whose transactional id this is by its form, None for another form."""
    found = re.fullmatch(f"(?P<id>.+){_OF_A_THREAD}", transactional_id)
    return None if found is None else found["id"]
