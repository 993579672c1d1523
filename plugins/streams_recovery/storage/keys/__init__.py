"""Key-encryption keys: one file for each service that keeps them, and this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streams_recovery.core.masking import remember_secrets
from streams_recovery.core.repository.encryption import KeyPlace, Provider
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.keys.aws import AwsKey
from streams_recovery.storage.keys.azure import AzureKey
from streams_recovery.storage.keys.google import GoogleKey
from streams_recovery.storage.keys.local import LocalKey
from streams_recovery.storage.keys.port import KeyEncryption, unusable
from streams_recovery.storage.keys.vault import VaultKey

_KINDS: Final[Mapping[Provider, Callable[[KeyPlace], KeyEncryption]]] = {
    "local": LocalKey,
    "aws": AwsKey,
    "google": GoogleKey,
    "azure": AzureKey,
    "vault": VaultKey,
}


def opened(place: KeyPlace) -> KeyEncryption:
    """The key-encryption key at a place. Raises ``KeyUnavailable`` without its secret, and ``ConfigInvalid`` for an address that is none."""
    if place.missing:
        # Else a service would be asked as this machine.
        raise unusable(f"{place.provider}:{place.address}".removesuffix(":"), place.missing)
    # A service may answer with what it was sent.
    remember_secrets(StorageCredentials(options=place.options).secrets)
    return _KINDS[place.provider](place)
