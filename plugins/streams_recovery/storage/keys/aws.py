"""AWS KMS."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.encryption import KeyPlace
from streams_recovery.storage.keys.port import Wrapped, no_answer, unusable

# What a person has to change. Everything else may pass.
_LASTING: Final = (
    *("AccessDeniedException", "DisabledException", "IncorrectKeyException", "InvalidCiphertextException", "InvalidKeyUsageException"),
    *("KMSInvalidStateException", "NotFoundException", "UnrecognizedClientException", "ValidationException", "InvalidArnException"),
    *("ExpiredTokenException", "InvalidSignatureException", "MissingAuthenticationToken"),
)
_ARN_PARTS: Final = 6


class AwsKey:
    """See ``KeyEncryption``. The address is the ARN of a symmetric key or of an alias; KMS keeps the versions of a key that is rotated there."""

    public = False

    def __init__(self, place: KeyPlace) -> None:
        self.name = f"aws:{place.address}"
        self._place = place
        if len(place.address.split(":")) < _ARN_PARTS or not place.address.startswith("arn:"):
            raise ConfigInvalid(
                f"{place.address} is no ARN of a key in KMS", next_step="write aws:arn:aws:kms:REGION:ACCOUNT:key/ID", address=place.address
            )

    def wrap(self, plain: bytes) -> Wrapped:
        answer = self._do("encrypt", Plaintext=plain)
        return Wrapped(str(answer.get("KeyId", "")), bytes(answer["CiphertextBlob"]))

    def unwrap(self, wrapped: Wrapped) -> bytes:
        return bytes(self._do("decrypt", CiphertextBlob=wrapped.data)["Plaintext"])

    def _do(self, what: str, **arguments: bytes) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError  # noqa: PLC0415  # slow to import

        try:
            found: dict[str, Any] = getattr(self._client, what)(KeyId=self._place.address, **arguments)
        except ClientError as error:
            code, message = (str(error.response.get("Error", {}).get(name, "")) for name in ("Code", "Message"))
            why = f"{code} {message}".strip()
            raise unusable(self.name, why) if code in _LASTING else no_answer(self.name, why) from None
        except NoCredentialsError as error:
            raise unusable(self.name, str(error)) from None
        except BotoCoreError as error:
            raise no_answer(self.name, str(error)) from None
        return found

    @cached_property
    def _client(self) -> Any:
        import boto3  # noqa: PLC0415  # slow to import
        from botocore.config import Config  # noqa: PLC0415

        given = self._place.options
        names = {"aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key", "aws_session_token": "session_token"}
        session = boto3.session.Session(**{name: given[option] for name, option in names.items() if option in given})
        patience = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 3})
        return session.client("kms", region_name=self._place.address.split(":")[3], config=patience)
