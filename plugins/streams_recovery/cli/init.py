"""The command that writes the configuration of an application, of what its cluster shows and a person answers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from streams_recovery.cli.context import DEFAULT_CONFIGS, Configs, EnvironmentConnections
from streams_recovery.cli.screen import ask, data, line, say, say_command
from streams_recovery.cli.screen import table as print_table
from streams_recovery.config.loader import load_named
from streams_recovery.config.reading import YamlError, read
from streams_recovery.core.draft.configuration import configuration_name, draft
from streams_recovery.core.draft.questions import NAMESPACE, NONE, RUNNING, URL, Answers, Question, Surroundings, next_question
from streams_recovery.core.draft.secret_words import SecretWords
from streams_recovery.core.draft.seen import ApplicationSeen, Candidate
from streams_recovery.core.errors import ConfigInvalid, NotFound, Refused
from streams_recovery.core.names import checked_name
from streams_recovery.core.words import command, first_names, shell
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.operations import draft as looks

_CONNECTION: Final = "kafka_default"
_TOPOLOGY_COMMAND: Final = "application.topology_command"
_LACKS: Final = 9


def init(
    application_id: Annotated[str, typer.Argument(metavar="[ID]", help="Its application.id. Without it you choose of what is found.")] = "",
    configs: Configs = DEFAULT_CONFIGS,
    *,
    connection: Annotated[str, typer.Option(metavar="ID", help="The cluster, by the id of its connection.")] = _CONNECTION,
    bootstrap_servers: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A cluster without users, that no connection is made for yet.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the file to write. Default: the id.")] = "",
    topology: Annotated[
        str | None,
        typer.Option(metavar="FILE|URL", help="What Topology#describe() prints, or an instance with GET /topology."),
    ] = None,
    given: Annotated[
        list[str] | None, typer.Option("--answer", metavar="KEY=VALUE", help="A key of the file, which is not asked for then. Several.")
    ] = None,
    update: Annotated[
        str, typer.Option(metavar="APP", help="Say what the cluster has that this configuration lacks. Writes nothing.")
    ] = "",
) -> None:
    """Write the configuration of an application: what its cluster shows, and what you answer. Never writes over a file."""
    if update:
        _update(update, configs, topology)
        return
    answers = _given(given or ())
    asks = sys.stdin.isatty()
    connecting = _connecting(connection, bootstrap_servers)
    with looks.looking_around(connecting, configs) as looker:
        chosen = looker.candidate(application_id) if application_id else _choice(looker.candidates, asks=asks)
        place = _surroundings(connecting, connection, chosen.application_id, name)
        path = _free(configs, place.name)
        say(f"{chosen.application_id}, an application of {chosen.kind.dialect.product}: {chosen.because}.")
        seen, hidden = looker.application(chosen)
    for one in hidden:
        say(f"Not seen: {one.text}")
        for grant in one.remedy.commands:
            say_command("This gives the right:", grant)
    seen = _described(seen, answers, topology)
    seen, taken = _interview(seen, answers, place, asks=asks)
    try:
        drafted = draft(seen, answers, place, taken)
        text = drafted.text
        data().write(text)
        looks.checked(text, place.name, configs, drafted.variables)
    except ConfigInvalid as error:
        raise error.then(_again(chosen.application_id, answers, place.name)) from None
    _write(path, text)
    line(f"{path} was written.")
    if drafted.variables:
        names = first_names([f"${{{name}}}" for name in drafted.variables])
        say(f"It has {names} in place of what looks like a secret: set that in the environment of commands and of Airflow's tasks.")
    if bootstrap_servers:
        say_command("Commands connect by a variable of the environment:", _exported(connection, bootstrap_servers))
    say_command("Next, what is missing for a savepoint:", command("preflight", place.name, "--for", "backup"))


def _surroundings(connecting: KafkaConnection, connection: str, application_id: str, name: str) -> Surroundings:
    running = looks.running_process(connecting, application_id)
    kubeconfig, context = looks.kubernetes_access(os.environ)
    return Surroundings(
        name=checked_name("configuration name", name or configuration_name(application_id)),
        connection=connection,
        home=str(Path.home() / "streams-recovery"),
        kubeconfig=kubeconfig,
        context=context,
        connected=running.pid if running else None,
        connected_as=running.shown if running else "",
        open_state=running.state if running else None,
    )


def _update(name: str, configs: Path, topology: str | None) -> None:
    config = load_named(name, configs, os.environ)
    with looks.looking_around(EnvironmentConnections(os.environ).kafka(config.source.connection), configs) as looker:
        found = looks.missing_in(config, looker, topology)
    for one in found:
        line(one)
    if found:
        say(f"{len(found)} lines to write into {name}.yaml. Nothing was written.")
        raise typer.Exit(_LACKS)
    line(f"{name}.yaml has all that the cluster shows.")


def _connecting(connection: str, servers: str | None) -> KafkaConnection:
    if servers is None:
        return EnvironmentConnections(os.environ).kafka(connection)
    return KafkaConnection.from_extra({"bootstrap.servers": servers}, where="--bootstrap-servers")


def _given(texts: list[str] | tuple[str, ...]) -> dict[str, Any]:
    """The answers of ``--answer``, read as the values of a configuration are."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key or key in found:
            raise typer.BadParameter(f"--answer takes KEY=VALUE, each key once: {text[:60]!r}")
        try:
            found[key] = read(f"value: {value}\n".encode(), os.environ).data["value"]
        except YamlError:
            # A command has what YAML reads otherwise, such as a colon.
            found[key] = value
    return found


def _choice(found: tuple[Candidate, ...], *, asks: bool) -> Candidate:
    if not found:
        raise NotFound(
            "nothing on this cluster looks like an application of Kafka Streams or Faust", next_step="start it first, or name its id"
        )
    if len(found) == 1:
        return found[0]
    print_table(("", "id", "kind", "because"), [(str(at), one.application_id, one.kind, one.because) for at, one in enumerate(found, 1)])
    if not asks:
        raise ConfigInvalid(f"{len(found)} applications are there", next_step="name one of them")
    while True:
        given = ask("Which one?", default="1")
        chosen = next((one for at, one in enumerate(found, 1) if given in (str(at), one.application_id)), None)
        if chosen is not None:
            return chosen
        say(f"{given[:60]!r} is none of them.")


def _free(configs: Path, name: str) -> Path:
    """The path of the file to write. Raises ``Refused`` where there is one of this name."""
    for suffix in (".yaml", ".yml"):
        if (path := configs / f"{name}{suffix}").exists():
            raise _there(path, name)
    return configs / f"{name}.yaml"


def _there(path: Path, name: str) -> Refused:
    return Refused(
        f"{path} is there already, and nothing is written over it",
        next_step="give another --name, or see what it lacks",
        path=str(path),
    ).then(command("init", "--update", name))


def _described(seen: ApplicationSeen, answers: Answers, topology: str | None) -> ApplicationSeen:
    if topology is not None:
        return looks.with_topology(seen, topology)
    if seen.topology is None and isinstance(answers.get(_TOPOLOGY_COMMAND), list):
        return looks.with_program(seen, list(answers[_TOPOLOGY_COMMAND]))
    return seen


def _interview(seen: ApplicationSeen, answers: dict[str, Any], place: Surroundings, *, asks: bool) -> tuple[ApplicationSeen, list[str]]:
    """What was seen besides, and the keys for which a default was taken. The rest of the answers is added to ``answers``."""
    seen, why_not = looks.with_workloads(seen, os.environ, answers.get(NAMESPACE))
    if why_not:
        say(why_not)
    taken: list[str] = []
    while True:
        if seen.pauses is None and answers.get(URL, NONE) != NONE:
            seen = looks.with_instance(seen, str(answers[URL]))
        question = next_question(seen, answers, place)
        if question is None:
            if RUNNING in answers:
                found = looks.of_process(answers.pop(RUNNING))
                answers.update(found | answers)
            return seen, taken
        if asks:
            answers.update(_answer(question))
        elif question.default is None or not question.safe:
            raise question.missing
        else:
            answers[question.key] = question.value(question.default)
            taken.append(question.key)


def _answer(question: Question) -> dict[str, Any]:
    """The answer by its key, with what else it says."""
    say("")
    say(question.why)
    choices = f" ({', '.join(question.choices)})" if question.choices else ""
    while True:
        given = ask(f"{question.text}{choices}", default=question.default)
        try:
            value = question.value(given)
            return looks.of_process(value) if question.key == RUNNING else {question.key: value}
        except ConfigInvalid as error:
            say(error.reason)


def _again(application_id: str, answers: Answers, name: str) -> str:
    """The command with what was answered, so that nobody answers twice, and with variables for secrets."""
    answers = SecretWords(name).without(dict(answers))
    shown = {key: value if isinstance(value, str) else json.dumps(value) for key, value in answers.items()}
    return command("init", application_id, *(word for key, value in shown.items() for word in ("--answer", f"{key}={value}")))


def _write(path: Path, text: str) -> None:
    """Create the file. One that has come meanwhile is left as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _there(path, path.stem) from None
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be written: {error.strerror}", next_step="name another directory with --configs") from error


def _exported(connection: str, servers: str) -> str:
    """The command that sets the variable of a connection without users."""
    stored = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": servers}})
    return f"export AIRFLOW_CONN_{connection.upper()}={shell(stored)}"
