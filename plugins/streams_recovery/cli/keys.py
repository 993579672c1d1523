"""Commands for the keys of encrypted records."""

from __future__ import annotations

import base64
from typing import Annotated

import typer

from streams_recovery.cli.context import DEFAULT_CONFIGS, Configs, Name, recovery_of
from streams_recovery.cli.screen import AsJson, line, print_json, say
from streams_recovery.cli.screen import table as print_table
from streams_recovery.core.errors import KeyUnavailable, NotFound, Refused
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.keys.keyring import Keyring


def list_keys(name: Name, configs: Configs = DEFAULT_CONFIGS, *, as_json: AsJson = False) -> None:
    """List an application's data keys, what wraps each, and whether it can be unwrapped now. Exit code 2 when one cannot."""
    with recovery_of(name, configs) as recovery:
        keyring = _keyring(recovery)
        found, second = keyring.stored(recovery.application_id), keyring.has_second
    if as_json:
        print_json(found)
    else:
        print_table(
            ("data key", "wrapped by", "version", *(["for the second place by"] if second else []), "problem"),
            (
                tuple(text or "-" for text in (one.key_id, one.wrapped_by, one.version, *([one.second] if second else []), one.problem))
                for one in found
            ),
        )
    if any(one.problem for one in found):
        raise typer.Exit(KeyUnavailable.exit_code)


def rotate_keys(name: Name, configs: Configs = DEFAULT_CONFIGS, *, as_json: AsJson = False) -> None:
    """Wrap every data key again with the first key of `storage.encryption.keys`. That of the second place does it too. No record is rewritten."""
    with recovery_of(name, configs) as recovery:
        done = _keyring(recovery).rotate(recovery.application_id)
    if as_json:
        print_json({"wrapped": done})
    else:
        line(f"{len(done):,} data keys were wrapped again")


def show_key(
    name: Name,
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="Id of the data key, which is in the names of its files.")],
    configs: Configs = DEFAULT_CONFIGS,
) -> None:
    """Print a data key in base64, for DuckDB and other readers. It opens all records of its day."""
    with recovery_of(name, configs) as recovery:
        keyring = _keyring(recovery)
        if key_id not in keyring.ids(recovery.application_id):
            raise NotFound(f"there is no data key {key_id}", next_step="`keys list` has those that there are", key_id=key_id)
        keyring.require({(recovery.application_id, key_id)})
        key = keyring.unwrapped({(recovery.application_id, key_id)}).keys[recovery.application_id, key_id]
    say("Whoever has this key can read the records of its day")
    line(base64.b64encode(key.secret).decode())


def _keyring(recovery: RecoveryContext) -> Keyring:
    keyring = recovery.repository.keyring
    if keyring is None:
        raise Refused(
            f"the configuration of {recovery.config.name} has no storage.encryption, so there are no keys",
            next_step="see docs/storage.md for how records are encrypted",
        )
    return keyring
