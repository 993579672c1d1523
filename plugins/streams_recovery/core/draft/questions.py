"""What the cluster cannot tell of an application: one question after the other, each with a default and why it matters.

A question has the name of the key that its answer is for, so that a script gives it beforehand. Some keys stand for several: ``storage`` is an address,
``runs.command`` one program for four verbs, ``runs.pause`` whether instances can be paused.
"""

from __future__ import annotations

import enum
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.draft.seen import ApplicationSeen, FoundWorkload
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import Guarantee, StoreKind
from streams_recovery.core.words import first_names

STORAGE, RUNS, STORES, PAUSE = "storage", "runs.kind", "stores", "runs.pause"
PROGRAM, COMPOSE = "runs.command", "runs.compose"
COMMAND, URL, STATE, RUNNING, WORKING = (
    f"runs.process.{key}" for key in ("command", "url", "state_directory", "running_as", "working_directory")
)
GUARANTEE, INPUTS, OUTPUTS, GLOBALS = "application.guarantee", "topics.inputs", "topics.outputs", "topics.globals"
NAMESPACE, WORKLOAD, PORT, POD_STATE = (f"runs.kubernetes.{key}" for key in ("namespace", "workload", "port", "state_directory"))
# The answer for an application that nobody can ask over HTTP.
NONE: Final = "none"
SURVIVE: Final = "backup.survive_cluster_loss"
_WAYS: Final = ("process", "command", "compose", "kubernetes")
_YES: Final = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
Answers = Mapping[str, Any]


class AnswerForm(enum.Enum):
    """What an answer is: one text, names of topics or stores, a command with its arguments, or yes or no."""

    TEXT = enum.auto()
    NAMES = enum.auto()
    WORDS = enum.auto()
    SWITCH = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known without the cluster: the ``name`` of the configuration, the ``connection`` of the cluster, the directory for what is kept on this
    machine, the file by which Kubernetes is reached, with the context in it, if there is one, and the only process of this user that is connected to the
    cluster and is known to be the application's: its pid, the end of its command line, and the state directory that it has open.
    """

    name: str
    connection: str
    home: str
    kubeconfig: str | None = None
    context: str | None = None
    connected: int | None = None
    connected_as: str = ""
    open_state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """``why`` is one sentence. A ``default`` that is not ``safe`` is offered to a person, and never taken for one."""

    key: str
    text: str
    why: str
    default: str | None = None
    safe: bool = True
    choices: tuple[str, ...] = ()
    form: AnswerForm = AnswerForm.TEXT

    def value(self, given: Any) -> Any:
        """An answer as data. Raises ``ConfigInvalid`` for one that is none."""
        if self.form is AnswerForm.SWITCH:
            return self._switch(given)
        if isinstance(given, list):
            return [str(one) for one in given]
        text = "" if given is None else str(given).strip()
        if self.form is AnswerForm.NAMES:
            return [one for one in re.split(r"[\s,]+", text) if one]
        if not text:
            raise self._refused("nothing was answered")
        if self.form is AnswerForm.WORDS:
            return self._words(text)
        if self.choices and text not in self.choices:
            raise self._refused(f"{text[:60]!r} is none of {', '.join(self.choices)}")
        return text

    @property
    def missing(self) -> ConfigInvalid:
        """The error where nobody can be asked."""
        choices = f", one of {', '.join(self.choices)}" if self.choices else ""
        return ConfigInvalid(
            f"{self.key} is not known: {self.text[:1].lower()}{self.text[1:].rstrip('?')}",
            next_step=f"add --answer {self.key}=VALUE{choices}; {self.why}",
            key=self.key,
        )

    def _switch(self, given: Any) -> bool:
        found = given if isinstance(given, bool) else _YES.get(str(given).strip().lower())
        if found is None:
            raise self._refused(f"{str(given)[:60]!r} is neither yes nor no")
        return found

    def _words(self, text: str) -> list[str]:
        try:
            return shlex.split(text)
        except ValueError as error:
            raise self._refused(f"{text[:60]!r} cannot be read: {error}") from None

    def _refused(self, reason: str) -> ConfigInvalid:
        return ConfigInvalid(f"{self.key}: {reason}", next_step=self.text, key=self.key)


def next_question(seen: ApplicationSeen, answers: Answers, place: Surroundings) -> Question | None:
    """The first question that is still open."""
    return next((one for one in questions(seen, answers, place) if one.key not in answers), None)


def questions(seen: ApplicationSeen, answers: Answers, place: Surroundings) -> Iterator[Question]:
    """Every question about this application, as far as the ``answers`` lead."""
    if seen.guarantee is None:
        yield _GUARANTEE
    if not seen.inputs:
        yield _INPUTS
    yield _way(seen)
    yield from _of_way(str(answers.get(RUNS, "")), seen, answers, place)
    if seen.topology is None and seen.kind is ApplicationKind.KAFKA_STREAMS:
        yield _OUTPUTS
        yield _GLOBALS
    elif seen.topology is None or seen.chooses_outputs:
        yield _OUTPUTS
    if seen.doubtful:
        yield _doubtful(seen)
    for store in seen.stores:
        kind, why = seen.kind_of(store)
        if kind is StoreKind.UNKNOWN and why:
            yield _kind(store)
    yield _storage(place)
    yield _SURVIVE


_ASKED: Final = "A restore waits until GET /health says RUNNING."
_GUARANTEE: Final = Question(
    key=GUARANTEE,
    text="What is its processing.guarantee?",
    why="It decides what a savepoint may promise; who is not sure takes at_least_once, which promises less.",
    default=Guarantee.AT_LEAST_ONCE.value,
    choices=tuple(Guarantee),
)
_INPUTS: Final = Question(
    key=INPUTS,
    text="Which topics does it read?",
    why="Nobody has committed offsets for it here, which an application does half a minute after it has begun; a savepoint is at one moment of its inputs.",
    form=AnswerForm.NAMES,
)
_OUTPUTS: Final = Question(
    key=OUTPUTS,
    text="Which topics does it write?",
    why="A restore does not roll them back, and says what is in them from later; nobody can see who writes a topic.",
    default="",
    form=AnswerForm.NAMES,
)
_GLOBALS: Final = Question(
    key=GLOBALS,
    text="Which topics does it read as global tables? Enter for none",
    why="They have no committed offsets, so a savepoint keeps only those that are named.",
    default="",
    form=AnswerForm.NAMES,
)
_SURVIVE: Final = Question(
    key=SURVIVE,
    text="Shall savepoints survive the loss of the whole cluster?",
    why="Then they have the records of the inputs too, which takes as much space as these; without, a restore needs the inputs to be there still.",
    default="yes",
    form=AnswerForm.SWITCH,
)


def _way(seen: ApplicationSeen) -> Question:
    only = "kubernetes" if len(seen.workloads) == 1 and not seen.workloads[0].by_label else None
    return Question(
        key=RUNS,
        text="How is it run?",
        why="A restore stops and starts it: process (one command line starts it here), command (a program of yours answers status, stop, start and wipe), "
        "compose, or kubernetes.",
        default=only or "command",
        safe=only is not None,
        choices=_WAYS,
    )


def _of_way(way: str, seen: ApplicationSeen, answers: Answers, place: Surroundings) -> Iterator[Question]:
    if way == "process":
        yield Question(
            key=COMMAND,
            text="Which command starts one instance?",
            why="It is run without a shell; {port} and {state_directory} stand for those of the instance.",
            form=AnswerForm.WORDS,
        )
        yield Question(
            key=URL,
            text="Where does an instance answer HTTP, or none?",
            why=_ASKED,
            default="http://127.0.0.1:8080",
            safe=False,
        )
        if answers.get(URL) == NONE:
            yield _running(place)
        # Where the command is told its directory, any will do.
        given = f"{place.home}/{place.name}/state" if any("{state_directory}" in word for word in answers.get(COMMAND) or ()) else None
        yield Question(
            key=STATE,
            text="Where is its local state: state.dir (/tmp/kafka-streams if it sets none), or Faust's --datadir?",
            why="A restore removes what is there of this application, or old state would go on behind it.",
            default=place.open_state or given,
            safe=False,
        )
    elif way == "command":
        yield Question(
            key=PROGRAM,
            text="Which program answers status, stop, start and wipe?",
            why="It is yours, and knows how the application is run; examples/programs/control.py is one to copy.",
            default=f"/opt/{place.name}/control",
            safe=False,
        )
    elif way == "compose":
        yield Question(
            key=COMPOSE,
            text="Which file has the settings of its services?",
            why="It names the compose project, the services and where each answers; docs/docker.md has one.",
            default=f"{place.home}/{place.name}/compose.json",
            safe=False,
        )
    elif way == "kubernetes":
        yield from _of_kubernetes(seen, answers)
    can_be_asked = way in ("process", "kubernetes") and NONE not in (answers.get(URL), answers.get(PORT))
    if can_be_asked and seen.pauses is None and seen.kind is ApplicationKind.KAFKA_STREAMS:
        yield Question(
            key=PAUSE,
            text="Does it answer POST /pause and /resume?",
            why="Then a savepoint can hold it for about a second; else it is stopped and started again where it has to be held.",
            default="no",
            form=AnswerForm.SWITCH,
        )


def _running(place: Surroundings) -> Question:
    shown = f" ({place.connected} is {place.connected_as})" if place.connected is not None else ""
    return Question(
        key=RUNNING,
        text=f"Which pid has it now{shown}, or none if it does not run?",
        why="What was started from elsewhere is found by its exact command line, which is read from that process.",
        default=NONE if place.connected is None else str(place.connected),
        safe=place.connected is None,
        form=AnswerForm.WORDS,
    )


def workload_of(seen: ApplicationSeen, answers: Answers) -> FoundWorkload | None:
    """The one workload that was found, if it shows the id where its program reads it, or was named."""
    found = seen.workloads[0] if len(seen.workloads) == 1 else None
    if found is None or not found.by_label:
        return found
    return found if (answers.get(NAMESPACE), answers.get(WORKLOAD)) == (found.namespace, found.workload) else None


def _of_kubernetes(seen: ApplicationSeen, answers: Answers) -> Iterator[Question]:
    found = workload_of(seen, answers)
    if found is None or found.by_label:
        several = f" ({first_names([f'{one.namespace} {one.workload}' for one in seen.workloads])} have its id)" if seen.workloads else ""
        guess = seen.workloads[0] if len(seen.workloads) == 1 else None
        yield Question(
            key=NAMESPACE,
            text=f"In which namespace?{several}",
            why="A restore scales the workload to zero and back.",
            default=None if guess is None else guess.namespace,
            safe=False,
        )
        yield Question(
            key=WORKLOAD,
            text="Which workload (deployment/NAME or statefulset/NAME)?",
            why="Its pods are the instances.",
            default=None if guess is None else guess.workload,
            safe=False,
        )
    if found is None or found.port is None or PORT in answers:
        yield Question(
            key=PORT,
            text="At which port do its pods answer HTTP, or none?",
            why=_ASKED,
            default="8080",
            safe=False,
        )
    if found is None or found.state_directory is None:
        yield Question(
            key=POD_STATE,
            text="Where is state.dir in the container?",
            why="A restore has to know on which volume old state may be.",
            default="/var/lib/kafka-streams/state",
            safe=False,
        )


def _doubtful(seen: ApplicationSeen) -> Question:
    return Question(
        key=STORES,
        text=f"Which of these stores are its own: {first_names(seen.doubtful, most=20)}?",
        why="Only the names of their changelogs say so, and an application with a longer id could have them; a restore replaces what is its own.",
        default="",
        form=AnswerForm.NAMES,
    )


def _kind(store: str) -> Question:
    return Question(
        key=f"stores.{store}.kind",
        text=f"Does the store {store} keep windows or sessions?",
        why="Its settings are the same for both, and its keys are read by it; unknown is right too, they are shown as bytes then.",
        default=StoreKind.UNKNOWN.value,
        choices=(StoreKind.WINDOW.value, StoreKind.SESSION.value, StoreKind.UNKNOWN.value),
    )


def _storage(place: Surroundings) -> Question:
    return Question(
        key=STORAGE,
        text="Where to store savepoints: a directory, or s3://, gs:// or az:// with bucket and prefix?",
        why="What is on this machine is lost with it; a bucket is not.",
        default=f"{place.home}/repository",
        safe=False,
    )
