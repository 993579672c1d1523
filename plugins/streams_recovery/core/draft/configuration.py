"""The draft of a configuration: what was seen and answered, as the document of a file, with a comment behind each line that is a guess."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.draft import questions as asked
from streams_recovery.core.draft.questions import Answers, Question, Surroundings
from streams_recovery.core.draft.secret_words import SecretWords
from streams_recovery.core.draft.seen import ApplicationSeen
from streams_recovery.core.draft.yaml_text import Path, flow_text, yaml_text
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import Evidence, Guarantee, StoreKind
from streams_recovery.core.names import is_name
from streams_recovery.core.repository.layout import place_in
from streams_recovery.core.words import first_names

_HEAD: Final = """\
# yaml-language-server: $schema=application.schema.json
#
# Written by `streams-recovery init`. A comment behind a line says what it was guessed from. docs/configuration.md explains every key.

"""
_VERBS: Final = ("status", "stop", "start", "wipe")
_COMPOSE_VERBS: Final = (*_VERBS, "pause", "resume")
_COMPOSE_MODULE: Final = ("python", "-m", "streams_recovery.application.docker_compose_verbs")


@dataclass(frozen=True, slots=True)
class Draft:
    """The document of a file, and the comments by the path of their line. ``variables`` are secrets by the names of variables that stand for them in it."""

    document: Mapping[str, Any]
    notes: Mapping[Path, str]
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """The file."""
        return _HEAD + yaml_text(self.document, self.notes)


def draft(seen: ApplicationSeen, answers: Answers, place: Surroundings, taken: Collection[str] = ()) -> Draft:
    """The draft of an application. ``answers`` are by the keys of the questions, and of other keys that are laid over the rest; ``taken`` are those that
    nobody gave, so that their default stands. Raises ``ConfigInvalid`` for an answer that contradicts what was seen.
    """
    made = _Making(seen, {one.key: one for one in asked.questions(seen, answers, place)}, answers, place)
    document: dict[str, Any] = {
        "version": 1,
        "application": made.application(),
        "source": {"connection": place.connection},
        "topics": made.topics(),
        "stores": made.stores(),
        "storage": made.stored(),
        "backup": made.backup(),
        "runs": made.runs(),
    }
    if not document["stores"]:
        del document["stores"]
    for key in taken:
        made.notes.setdefault(made.path_of(key), "the default: nobody was asked")
    for key in answers:
        if key not in made.questions:
            path = made.path_of(key)
            _put(document, path, answers[key])
            made.notes.pop(path, None)
    secrets = SecretWords(place.name)
    return Draft(secrets.without(document), {path: note for path, note in made.notes.items() if _has(document, path)}, secrets.variables)


class _Making:
    """The sections of one draft, and the notes that come with them."""

    def __init__(self, seen: ApplicationSeen, questions: Mapping[str, Question], answers: Answers, place: Surroundings) -> None:
        self.seen, self.questions, self.answers, self.place = seen, questions, answers, place
        self.notes: dict[Path, str] = {}

    def answer(self, key: str) -> Any:
        """The answer to a question, None where it is none of this application."""
        return self.questions[key].value(self.answers[key]) if key in self.questions else None

    def path_of(self, key: str) -> Path:
        """The keys of a path. The name of a store may have dots in it."""
        parts = tuple(key.split("."))
        return (parts[0], ".".join(parts[1:-1]), parts[-1]) if parts[0] == "stores" and parts[2:] else parts

    def application(self) -> dict[str, Any]:
        seen = self.seen
        guarantee = self.answer(asked.GUARANTEE) or seen.guarantee
        if seen.guarantee is Guarantee.AT_LEAST_ONCE and seen.kind is ApplicationKind.KAFKA_STREAMS:
            self.notes["application", "guarantee"] = "guessed: no transactional id of it is registered; one is kept for a week"
        kind = {} if seen.kind is ApplicationKind.KAFKA_STREAMS else {"kind": seen.kind.value}
        return {"id": seen.application_id, **kind, "guarantee": str(guarantee)}

    def topics(self) -> dict[str, Any]:
        seen = self.seen
        inputs = list(seen.inputs) or self.answer(asked.INPUTS)
        found = {"inputs": inputs, "outputs": list(seen.outputs), "globals": list(seen.globals)}
        for role in ("outputs", "globals"):
            found[role] = [*found[role], *(name for name in self.answer(f"topics.{role}") or () if name not in found[role])]
        if seen.has_pattern:
            self.notes["topics", "inputs"] = "it subscribes to a pattern too: write it under input_patterns"
        elif seen.unreadable:
            self.notes["topics", "inputs"] = f"left out, because no configuration takes such a name: {first_names(seen.unreadable)}"
        if seen.topology is not None:
            self.notes["topics", "outputs"] = f"by {seen.described_by}" + (
                ", and a sink that chooses topics itself" if seen.chooses_outputs else ""
            )
        elif not found["outputs"]:
            self.notes["topics", "outputs"] = "nobody said what it writes: name it here"
        return {role: names for role, names in found.items() if names or role != "globals"}

    def stores(self) -> dict[str, Any]:
        seen, found = self.seen, {}
        chosen = self.answer(asked.STORES) or []
        if unknown := sorted(set(chosen) - set(seen.doubtful)):
            raise ConfigInvalid(
                f"{asked.STORES}: {first_names(unknown)} is none of {first_names(seen.doubtful, most=20)}",
                next_step="name stores of that list, or none",
            )
        for store, topic in {**seen.stores, **{name: seen.doubtful[name] for name in chosen}}.items():
            kind, why = seen.kind_of(store)
            answered = self.answer(f"stores.{store}.kind")
            found[store] = {"kind": answered or kind.value}
            if answered is None and why:
                self.notes["stores", store] = f"guessed: {why}" if kind is not StoreKind.UNKNOWN else why
            elif seen.internal[topic].evidence is Evidence.NAME and topic not in seen.stated and seen.topology is None:
                self.notes["stores", store] = "by the name of its changelog"
        left = sorted(set(seen.doubtful) - set(chosen))
        if left:
            where: Path = ("stores",) if found else ("topics", "inputs")
            self.notes[where] = f"perhaps also, by their names: {first_names(left, most=20)}"
        return found

    def stored(self) -> dict[str, Any]:
        address = self.answer(asked.STORAGE)
        if "://" not in address:
            return {"backend": "filesystem", "path": address}
        try:
            return place_in(address)
        except ValueError as error:
            raise ConfigInvalid(f"{asked.STORAGE}: {error}", next_step="write s3://bucket/prefix, or a directory") from None

    def backup(self) -> dict[str, Any]:
        found: dict[str, Any] = {"survive_cluster_loss": self.answer(asked.SURVIVE)}
        if (self.answer(asked.GUARANTEE) or self.seen.guarantee) == Guarantee.EXACTLY_ONCE_V2:
            # Where the cluster names transactions, nothing is held. The fallback is for one that does not.
            found["consistency"] = {"mode": "live", "fallback": "pause" if self._pauses else "stop"}
        return found

    @property
    def _pauses(self) -> bool:
        way = self.answer(asked.RUNS)
        if way == "compose":
            return True
        if not self._can_be_asked:
            return False
        return way != "command" and self.seen.kind is ApplicationKind.KAFKA_STREAMS and bool(self.seen.pauses or self.answer(asked.PAUSE))

    @property
    def _can_be_asked(self) -> bool:
        return asked.NONE not in (self.answer(asked.URL), self.answer(asked.PORT))

    def runs(self) -> dict[str, Any]:
        way = self.answer(asked.RUNS)
        if way == "kubernetes":
            return {"kind": way, way: self._kubernetes()}
        if way == "process":
            return {"kind": way, way: self._process()}
        if way == "compose":
            settings = self.answer(asked.COMPOSE)
            return {"kind": "command", "command": {verb: [*_COMPOSE_MODULE, settings, verb] for verb in _COMPOSE_VERBS}}
        return {"kind": way, way: {verb: [self.answer(asked.PROGRAM), verb] for verb in _VERBS}}

    def _process(self) -> dict[str, Any]:
        name = self.place.name
        self.notes["runs", "process", "instances"] = "one; give each other one a name, an address and a directory of its own"
        address = {"url": self.answer(asked.URL)} if self._can_be_asked else {}
        instance = {"name": f"{name}-1", **address, "state_directory": self.answer(asked.STATE)}
        running = self.answer(asked.RUNNING) if not address else [asked.NONE]
        found = {} if running == [asked.NONE] else {"running_as": running}
        self.notes["runs", "process", "directory"] = "what is started from here has its output and its pid there"
        return {
            "directory": f"{self.place.home}/{name}/run",
            "command": self.answer(asked.COMMAND),
            **found,
            "instances": [instance],
            **self._control(("runs", "process", "control")),
        }

    def _kubernetes(self) -> dict[str, Any]:
        here, found = ("runs", "kubernetes"), asked.workload_of(self.seen, self.answers)
        if found is not None and not found.by_label:
            self.notes[*here, "workload"] = f"guessed: {found.because}"
        for key, value in (("port", asked.PORT not in self.questions), ("state_directory", found and found.state_directory)):
            if value:
                self.notes[*here, key] = "guessed: by the workload's container"
        section: dict[str, Any] = {
            "namespace": found.namespace if found else self.answer(asked.NAMESPACE),
            "workload": found.workload if found else self.answer(asked.WORKLOAD),
            "state_directory": (found and found.state_directory) or self.answer(asked.POD_STATE),
        }
        if self._can_be_asked:
            section["port"] = self._number(asked.PORT) if asked.PORT in self.questions else found and found.port
        if found is not None and found.container is not None:
            section["container"] = found.container
        if self.place.kubeconfig is not None:
            self.notes[*here, "kubeconfig"] = "that of whoever wrote this; without it the service account of the pod"
            section["kubeconfig"] = self.place.kubeconfig
            if self.place.context is not None:
                self.notes[*here, "context"] = "where it was looked for"
                section["context"] = self.place.context
        if not self._can_be_asked:
            return section
        control = self._control((*here, "control")).get("control", {})
        self.notes[*here, "control"] = "pods are asked at their addresses, by plain http"
        return {**section, "control": {**control, "allow_http": True}}

    def _number(self, key: str) -> int:
        given = str(self.answer(key))
        if not given.isdecimal():
            raise ConfigInvalid(f"{key}: {given[:60]!r} is no number", next_step=self.questions[key].text)
        return int(given)

    def _control(self, path: Path) -> dict[str, Any]:
        if self._pauses or not self._can_be_asked:
            return {}
        if self.seen.pauses is False:
            self.notes[path] = "guessed: GET /health does not say whether it is paused"
        return {"control": {"pause": None, "resume": None}}


def _put(document: dict[str, Any], path: Path, value: Any) -> None:
    *above, last = path
    for key in above:
        found = document.setdefault(key, {})
        if not isinstance(found, dict):
            raise ConfigInvalid(f"{'.'.join(path)} cannot be set: {key} has no keys below it", next_step="correct --answer")
        document = found
    document[last] = value


def _has(document: Mapping[str, Any], path: Path) -> bool:
    found: Any = document
    for key in path:
        if not isinstance(found, Mapping) or key not in found:
            return False
        found = found[key]
    return True


def lacking(seen: ApplicationSeen, declared: Mapping[str, Collection[str]], guarantee: Guarantee) -> Iterator[str]:
    """What the cluster has and a configuration lacks, a clause each, with the line to write. ``declared`` are its topics by role, and its ``stores``."""
    for role, names, why in (
        (
            "inputs",
            seen.inputs,
            "its group has committed offsets there" if seen.topology is None else f"by its offsets, or by {seen.described_by}",
        ),
        ("outputs", seen.outputs, f"by {seen.described_by}"),
        ("globals", seen.globals, f"by {seen.described_by}"),
    ):
        if new := [name for name in names if name not in declared[role]]:
            yield f"topics.{role} lacks {first_names(new, most=20)}, {why}: {role}: {flow_text([*declared[role], *new])}"
    for store, topic in seen.stores.items():
        if store not in declared["stores"]:
            kind, _ = seen.kind_of(store)
            yield f"stores lacks {store}, whose changelog {topic} is there: {flow_text(store)}: {flow_text({'kind': kind.value})}"
    if new := [name for name in seen.doubtful if name not in declared["stores"]]:
        yield f"stores may lack {first_names(new, most=20)}: only the names of their changelogs say so; name them there, or their topics in topics.foreign"
    if seen.guarantee is Guarantee.EXACTLY_ONCE_V2 and guarantee is not seen.guarantee:
        yield f"application.guarantee is {guarantee}, and it has transactional ids: guarantee: {seen.guarantee}"


def configuration_name(application_id: str) -> str:
    """The name of a configuration for an id: the id, unless it is too long for a tag in Airflow."""
    return application_id[:100] if is_name(application_id) else "application"
