"""One contract for every key-encryption key: local, AWS KMS, Google Cloud KMS, Azure Key Vault and Vault, each by the interface of its service."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.errors import ConfigInvalid, Damaged, KeyServiceUnavailable, KeyUnavailable, RecoveryError
from streams_recovery.core.repository.encryption import DataKey, KeyAccess, KeyPlace
from streams_recovery.core.repository.layout import Backend, StorageLocation
from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.storage.conditional_put import Retries
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


def hosted(services: KeyServices, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    """Azure's App Service and Container Apps."""
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{services.url}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "a header of a test")


def hosted_as(services: KeyServices, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """The same with one of several identities."""
    hosted(services, monkeypatch, directory)
    monkeypatch.setenv("AZURE_CLIENT_ID", "one of several")
    services.client = "one of several"


def pod(services: KeyServices, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Kubernetes at Azure, with workload identity."""
    (directory / "token").write_text(services.pod)
    for name, value in (("TENANT_ID", "tenant"), ("CLIENT_ID", "me"), ("FEDERATED_TOKEN_FILE", str(directory / "token"))):
        monkeypatch.setenv(f"AZURE_{name}", value)


def application(_: KeyServices, monkeypatch: pytest.MonkeyPatch, __: Path) -> None:
    """An application of Entra ID in the environment."""
    for name, value in (("TENANT_ID", "tenant"), ("CLIENT_ID", "me"), ("CLIENT_SECRET", CLIENT_SECRET)):
        monkeypatch.setenv(f"AZURE_{name}", value)


def metadata(services: KeyServices, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    """Google's machines, and pods with workload identity."""
    monkeypatch.setenv("GCE_METADATA_HOST", services.url.removeprefix("http://"))


def account_file(services: KeyServices, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    (directory / "account.json").write_text(services.account_json)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(directory / "account.json"))


OF_MACHINE = [("azure", "azure", one) for one in (hosted, hosted_as, pod, application)] + [("google", "gcs", metadata)]


@pytest.mark.parametrize(("name", "backend", "set_up"), OF_MACHINE, ids=lambda one: getattr(one, "__name__", one))
def test_the_identity_of_the_machine_is_found_for_keys_where_the_store_finds_it(  # fixtures
    services: KeyServices, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, backend: Backend, set_up: Callable[..., None]
) -> None:
    set_up(services, monkeypatch, tmp_path)
    place = replace(PLACES[name](services), options={})
    assert opened(place).unwrap(opened(place).wrap(PLAIN)) == PLAIN
    store = StorageLocation(backend=backend, account="a", bucket="bucket", prefix="p", endpoint=services.url, allow_http=True)
    with pytest.raises(RecoveryError):
        Repository(store, None, Retries(attempts=1)).get("key")
    assert {given for path, given in services.elsewhere if "/bucket/" in path} == {f"Bearer {TOKEN}"}


def test_a_service_account_s_key_in_the_file_of_the_environment_is_used(
    services: KeyServices, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    account_file(services, monkeypatch, tmp_path)
    place = KeyPlace(provider="google", address=GOOGLE)
    assert opened(place).unwrap(opened(place).wrap(PLAIN)) == PLAIN
    (tmp_path / "account.json").write_text('{"type": "external_account"}')
    with pytest.raises(KeyUnavailable, match="is no key of a service account"):
        opened(place)
    (tmp_path / "account.json").unlink()
    with pytest.raises(KeyUnavailable, match="FileNotFoundError"):
        opened(place)


def test_without_the_file_of_a_pod_nobody_is_asked_in_its_place(
    services: KeyServices, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pod(services, monkeypatch, tmp_path)
    (tmp_path / "token").unlink()
    with pytest.raises(KeyUnavailable, match=r"of AZURE_FEDERATED_TOKEN_FILE cannot be read: .*No such file"):
        opened(replace(PLACES["azure"](services), options={})).wrap(PLAIN)
    assert services.calls == []


def test_what_somebody_has_wrapped_by_a_public_key_keeps_a_rotation_from_taking_it_for_the_data_key(
    services: KeyServices, tmp_path: Path
) -> None:
    place, other = (StorageLocation(backend="filesystem", path=str(tmp_path / one)) for one in ("own", "other"))
    public, new = PLACES["azure"](services), PLACES["vault"](services)
    ring = Keyring(Repository(place), KeyAccess(places=(public,)))
    key = ring.writing("orders")
    stranger = Keyring(Repository(other), KeyAccess(places=(public,)))
    stranger._store("orders", DataKey(key_id=key.key_id, secret=bytes(32)), opened(public))
    (found,) = (tmp_path / "other").rglob("000000000001.json")
    (mine,) = (tmp_path / "own").rglob("000000000001.json")
    mine.with_name("000000000002.json").write_bytes(found.read_bytes())
    with pytest.raises(Damaged, match="give different ones"):
        Keyring(Repository(place), KeyAccess(places=(new, public))).rotate("orders")
    mine.with_name("000000000002.json").unlink()
    assert Keyring(Repository(place), KeyAccess(places=(new, public))).rotate("orders") == [key.key_id]


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
