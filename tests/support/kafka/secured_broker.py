"""A broker as a company runs it: TLS with a certificate authority of its own, SASL, an authorizer, and nobody allowed anything by default."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from embedded.broker import BrokerExtras, start_broker
from embedded.jars import JarSet
from embedded.ports import HOST, free_ports
from embedded.processes import Processes
from streams_recovery.kafka.connection import KafkaConnection

ADMIN = "admin"
# Recognisable, so that a search of everything that was written finds them wherever they leaked to.
PASSWORDS = {name: f"canary-{name}-5f1d0c7e" for name in (ADMIN, "backup", "restore", "stranger", "spare")}
SCRAM = "SCRAM-SHA-512"
_SIGNS = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """A certificate authority, and what it signs, as PEM files in ``directory``."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = self._builder(self._name, self._key, days=30).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        own = own.add_extension(_SIGNS, critical=True)
        self.certificate = self._write(f"{name}.pem", own.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *, days: int = 30, key_password: str | None = None) -> tuple[Path, Path]:
        """Certificate and key for ``name``; as a server's it is good for 127.0.0.1 and for no name at all."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
        signed = self._builder(subject, key, days=days).add_extension(address, critical=False).sign(self._key, hashes.SHA256())
        hidden = serialization.BestAvailableEncryption(key_password.encode()) if key_password else serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
        return (
            self._write(f"{name}-{days}.crt", signed.public_bytes(serialization.Encoding.PEM)),
            self._write(f"{name}-{days}.key", pem),
        )

    def keystore(self, name: str, *, days: int = 30) -> Path:
        """One file with key and certificate, as Kafka wants it."""
        certificate, key = self.issue(name, days=days)
        return self._write(f"{name}-{days}.keystore.pem", key.read_bytes() + certificate.read_bytes())

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: int) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=60))
        return builder.not_valid_after(now + datetime.timedelta(days=days))

    def _write(self, name: str, content: bytes) -> Path:
        path = self._directory / name
        path.write_bytes(content)
        return path


@dataclass(frozen=True)
class Secured:
    """The broker and the ways to it. ``expired`` is a listener whose certificate has run out, ``mutual`` one that wants a client's certificate.
    ``processes_directory`` has the broker's log.
    """

    address: str
    expired: str
    mutual: str
    authority: Authority
    stranger: Authority
    processes_directory: Path

    @property
    def by_name(self) -> str:
        """The same broker under a name that its certificate does not have."""
        return self.address.replace(HOST, "localhost")

    def extra(self, user: str, mechanism: str = SCRAM, **changes: object) -> dict[str, object]:
        """The extra of an Airflow connection; ``changes`` are laid over it, with underscores for dots."""
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
            "ssl.ca.location": str(self.authority.certificate),
            "broker.address.family": "v4",
            **{key.replace("_", "."): value for key, value in changes.items()},
        }

    def connection(self, user: str, mechanism: str = SCRAM, **changes: object) -> KafkaConnection:
        """How ``user`` connects."""
        return KafkaConnection.from_extra(self.extra(user, mechanism, **changes), where=f"connection of {user}")


@contextmanager
def secured_broker(directory: Path, jars: JarSet | None = None) -> Iterator[Secured]:
    """Start one, with the users of ``PASSWORDS``; ``admin`` may do everything, the others nothing. ``jars`` are another Kafka's than the embedded one."""
    authority, stranger = Authority(directory, "authority"), Authority(directory, "stranger")
    port, controller, expired, mutual = free_ports(4)
    extras = BrokerExtras(
        settings=_settings(authority, expired, mutual),
        format_arguments=tuple(
            part for user, password in PASSWORDS.items() for part in ("--add-scram", f"{SCRAM}=[name={user},password={password}]")
        ),
        client={
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ADMIN,
            "sasl.password": PASSWORDS[ADMIN],
            "ssl.ca.location": str(authority.certificate),
        },
        jars=jars,
    )
    with Processes(directory / "processes") as processes:
        address = start_broker(processes, directory / "broker", port=port, controller_port=controller, extras=extras)
        yield Secured(address, f"{HOST}:{expired}", f"{HOST}:{mutual}", authority, stranger, directory / "processes")


def _settings(authority: Authority, expired: int, mutual: int) -> dict[str, str]:
    listeners = f"SASL_SSL://{{host}}:{{port}},EXPIRED://{{host}}:{expired},MUTUAL://{{host}}:{mutual}"
    users = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    plain = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{ADMIN}" password="{PASSWORDS[ADMIN]}" {users};'
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    settings = {
        "listeners": f"{listeners},CONTROLLER://{{host}}:{{controller}}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,EXPIRED:SASL_SSL,MUTUAL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.keystore("broker")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.expired.ssl.keystore.type": "PEM",
        "listener.name.expired.ssl.keystore.location": str(authority.keystore("broker", days=-1)),
        "listener.name.mutual.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # The broker's way to its own controller has no users.
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
    }
    for listener in ("sasl_ssl", "expired"):
        settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = plain
        settings[f"listener.name.{listener}.scram-sha-512.sasl.jaas.config"] = scram
    return settings
