"""Why a broker's certificate is not accepted. librdkafka says the same of every reason; a handshake of our own tells them apart."""

from __future__ import annotations

import socket
import ssl

from streams_recovery.kafka.connection import KafkaConnection

_TIMEOUT_SECONDS = 3.0


def certificate_problem(connection: KafkaConnection) -> str | None:
    """What is wrong with the first certificate that is wrong: expired, for another name, of an unknown authority. None when nothing is found.

    No credentials are sent, and a broker that does not answer is passed over.
    """
    if connection.properties.get("security.protocol") not in ("SSL", "SASL_SSL"):
        return None
    try:
        context = ssl.create_default_context(cafile=connection.properties.get("ssl.ca.location"))
    except OSError as error:
        return f"ssl.ca.location cannot be read: {error}"
    context.check_hostname = connection.properties.get("ssl.endpoint.identification.algorithm") != "none"
    for server in connection.bootstrap_servers.split(","):
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_SECONDS) as plain:
                context.wrap_socket(plain, server_hostname=host.strip("[]")).close()
        except ssl.SSLCertVerificationError as error:
            return f"the certificate of {server}: {error.verify_message}"
        except (OSError, ValueError):
            continue
    return None
