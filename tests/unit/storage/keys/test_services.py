"""One contract for every key-encryption key: local, AWS KMS, Google Cloud KMS, Azure Key Vault and Vault, each by the interface of its service."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.errors import ConfigInvalid, KeyServiceUnavailable, KeyUnavailable
from streams_recovery.core.repository.encryption import DataKey, KeyAccess, KeyPlace
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.storage.keys import opened, port
from streams_recovery.storage.keys.keyring import Keyring
from streams_recovery.storage.keys.port import Wrapped
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.seals import new_private_key
from tests.support.storage.key_services import ARN, CLIENT_SECRET, GOOGLE, TOKEN, KeyServices, Refusal, key_services, pair

LOCAL = base64.b64encode(os.urandom(32)).decode()
PLAIN = os.urandom(64)
PLACES: dict[str, Callable[[KeyServices], KeyPlace]] = {
    "local": lambda _: KeyPlace(provider="local", address="", options={"secret": LOCAL}),
    "aws": lambda _: KeyPlace(provider="aws", address=ARN, options={"access_key_id": "AKIATEST", "secret_access_key": "a secret"}),
    "google": lambda found: KeyPlace(provider="google", address=GOOGLE, options={"service_account_key": found.account_json}),
    "azure": lambda found: KeyPlace(
        provider="azure",
        address=f"{found.url}/keys/orders",
        options={"tenant_id": "tenant", "client_id": "me", "client_secret": CLIENT_SECRET},
    ),
    "vault": lambda found: KeyPlace(provider="vault", address=f"{found.url}/v1/transit/keys/orders", options={"secret": TOKEN}),
}
SERVICES = [name for name in PLACES if name != "local"]


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyServices]:
    with key_services() as found:
        for variable in ("AWS_ENDPOINT_URL_KMS", "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDKMS", "AZURE_AUTHORITY_HOST"):
            monkeypatch.setenv(variable, found.url)
        monkeypatch.setattr(port.time, "sleep", lambda _: None)
        yield found


@pytest.mark.parametrize("name", PLACES)
def test_what_was_wrapped_is_unwrapped_by_another_process_and_is_not_in_it(services: KeyServices, name: str) -> None:
    key = opened(PLACES[name](services))
    wrapped = key.wrap(PLAIN)
    assert PLAIN not in wrapped.data
    again = opened(PLACES[name](services))
    assert again.name == key.name
    assert again.unwrap(wrapped) == PLAIN
    assert key.wrap(PLAIN).data != wrapped.data


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("data", [b"", b"x", b"vault:v1:AAAA", bytes(range(92)), bytes(256)])
def test_what_it_has_not_wrapped_is_refused_for_good(services: KeyServices, name: str, data: bytes) -> None:
    key = opened(PLACES[name](services))
    version = key.wrap(PLAIN).version
    for wrapped in (Wrapped(version, data), Wrapped("../../secrets/other", data)):
        with pytest.raises(KeyUnavailable):
            key.unwrap(wrapped)
    assert not [path for path in services.calls if "secrets" in path]


@pytest.mark.parametrize("name", SERVICES)
def test_a_key_that_is_rotated_at_its_service_reads_what_it_wrapped_before(services: KeyServices, name: str) -> None:
    key = opened(PLACES[name](services))
    before = key.wrap(PLAIN)
    services.rotate()
    services.rotate_azure()
    after = key.wrap(PLAIN)
    assert [key.unwrap(one) for one in (before, after)] == [PLAIN, PLAIN]
    # KMS keeps the versions of a key to itself.
    assert (before.version == after.version) == (name == "aws")


@pytest.mark.parametrize("name", SERVICES)
def test_a_disabled_key_is_an_error_that_stays_and_says_why(services: KeyServices, name: str) -> None:
    key = opened(PLACES[name](services))
    wrapped = key.wrap(PLAIN)
    services.refuses = "DisabledException"
    for call in (lambda: key.wrap(PLAIN), lambda: key.unwrap(wrapped)):
        with pytest.raises(KeyUnavailable, match="DisabledException") as caught:
            call()
        assert caught.value.exit_code == 2
        assert key.name in str(caught.value)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_that_is_busy_is_asked_again_and_one_that_stays_so_may_be_tried_later(services: KeyServices, name: str) -> None:
    key = opened(PLACES[name](services))
    services.fails = 2
    assert key.unwrap(key.wrap(PLAIN)) == PLAIN
    services.fails = 1_000
    with pytest.raises(KeyServiceUnavailable):
        key.wrap(PLAIN)


def test_while_a_service_does_not_answer_what_an_older_key_has_wrapped_is_read_by_that(services: KeyServices, tmp_path: Path) -> None:
    repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path)))
    old, new = PLACES["local"](services), PLACES["vault"](services)
    key = Keyring(repository, KeyAccess(places=(old,))).writing("orders")
    name = f"orders/segments/t/0/0-9-a.{key.key_id}.parquet"
    Keyring(repository, KeyAccess(places=(new, old))).rotate("orders")
    services.fails = 1_000
    assert Keyring(repository, KeyAccess(places=(new, old))).of(name) == key
    other = KeyPlace(provider="local", address="", options={"secret": base64.b64encode(os.urandom(32)).decode()})
    for places in ((new,), (new, other)):
        with pytest.raises(KeyServiceUnavailable):
            Keyring(repository, KeyAccess(places=places)).of(name)


@pytest.mark.parametrize("name", SERVICES)
def test_while_the_service_of_one_place_is_gone_the_other_place_is_read_and_written(
    services: KeyServices, tmp_path: Path, name: str
) -> None:
    repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path)))
    cloud, local = PLACES[name](services), PLACES["local"](services)
    (mine, second), (own, first) = (cloud, replace(local, mirror=True)), (local, replace(cloud, mirror=True))

    def ring(*places: KeyPlace) -> Keyring:
        return Keyring(repository, KeyAccess(places=places))

    key = ring(mine, second).writing("orders")
    file = f"orders/segments/t/0/0-9-a.{key.key_id}.parquet"
    services.fails = 1_000
    assert ring(second, mine).of(file) == key
    assert services.fails == 1_000, "and nobody asks it"
    assert ring(second, mine).writing("other").secret
    services.fails = 1_000
    assert ring(own, first).writing("payments").secret
    services.fails = 0
    assert len(ring(own, first).complete("payments")) == 1
    assert ring(first).stored("payments")[0].problem == ""


def wrong(place: KeyPlace) -> KeyPlace:
    """The same without the right: with a secret that is not the one."""
    other = {"access_key_id": "AKIAOTHER", "secret": "another token", "client_secret": "another one of it"}
    options = {name: other.get(name, value) for name, value in place.options.items()}
    if "service_account_key" in options:
        with key_services() as stranger:
            stranger.account = pair(9)
            found = stranger.account_json.replace(stranger.url, place_url(place))
        options["service_account_key"] = found
    return KeyPlace(provider=place.provider, address=place.address, options=options)


def place_url(place: KeyPlace) -> str:
    text = place.options["service_account_key"]
    return text[text.index("http://127") : text.index("/google-token")]


@pytest.mark.parametrize("name", SERVICES)
def test_a_user_without_the_right_is_told_so(services: KeyServices, name: str) -> None:
    with pytest.raises(KeyUnavailable):
        opened(wrong(PLACES[name](services))).wrap(PLAIN)


@pytest.mark.parametrize("name", SERVICES)
def test_a_key_that_anybody_could_have_wrapped_encrypts_nothing_of_ours(services: KeyServices, tmp_path: Path, name: str) -> None:
    place = PLACES[name](services)

    def writing(seal: SealKeys | None = None) -> DataKey:
        repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path)), seal=seal)
        ring = Keyring(repository, KeyAccess(places=(place,)))
        assert ring.writing("orders") == ring.writing("orders")
        return ring.writing("orders")

    assert (writing() == writing()) == (name != "azure")
    private, public = new_private_key()
    seal = SealKeys(public=(public,), private=private)
    assert writing(seal) == writing(seal), "nobody else can seal"


@pytest.mark.parametrize("name", ["google", "azure", "vault"])
def test_a_token_that_a_service_repeats_is_in_no_error(services: KeyServices, name: str) -> None:
    services.token = f"a token of {name}"
    place = PLACES[name](services)
    options = {option: services.token if value == TOKEN else value for option, value in place.options.items()}
    key = opened(KeyPlace(provider=place.provider, address=place.address, options=options))
    key.wrap(PLAIN)
    services.refuses = f"no policy for {services.token}"
    with pytest.raises(KeyUnavailable, match=r"no policy for \*\*\*"):
        key.wrap(PLAIN)


@pytest.mark.parametrize(
    ("provider", "address"),
    [
        ("aws", "alias/orders"),
        ("google", "projects/p/keys/k"),
        ("azure", "https://v.vault.azure.net/secrets/orders"),
        ("azure", "http://v.vault.azure.net/keys/orders"),
        ("vault", "https://vault:8200/transit/orders"),
        ("vault", "http://vault:8200/v1/transit/keys/orders"),
        ("vault", "https://u:p@vault:8200/v1/transit/keys/orders"),
    ],
)
def test_an_address_that_is_none_or_not_private_is_refused(provider: str, address: str) -> None:
    with pytest.raises(ConfigInvalid):
        opened(KeyPlace(provider=provider, address=address, options={"secret": "x"}))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PLACES)
def test_without_its_secret_no_key_is_asked_as_this_machine(services: KeyServices, name: str) -> None:
    place = PLACES[name](services)
    with pytest.raises(KeyUnavailable, match="connection kms does not exist"):
        opened(KeyPlace(provider=place.provider, address=place.address, missing="connection kms does not exist"))
    assert services.calls == []


def test_a_redirect_is_not_followed_with_the_token(services: KeyServices, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(*_: object) -> object:
        raise Refusal(302, {})

    key = opened(PLACES["vault"](services))
    monkeypatch.setattr(services, "answer", elsewhere)
    with pytest.raises(KeyUnavailable, match="HTTP 302"):
        key.wrap(PLAIN)


@pytest.mark.parametrize("name", ["azure", "google", "vault"])
def test_a_service_that_repeats_a_token_has_it_shown_by_no_error(services: KeyServices, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    key = opened(PLACES[name](services))
    key.wrap(PLAIN)
    sent: list[str] = []

    def repeated(_: str, headers: dict[str, str], __: bytes) -> object:
        sent.append(headers.get("x-vault-token") or headers["authorization"].removeprefix("Bearer "))
        # Where it is cut, too.
        raise Refusal(403, {"message": 280 * "x" + sent[-1]})

    monkeypatch.setattr(services, "answer", repeated)
    with pytest.raises(KeyUnavailable) as raised:
        key.wrap(PLAIN)
    assert len(sent[-1]) >= 8
    assert sent[-1][:8] not in str(raised.value)
    assert "***" in str(raised.value)
