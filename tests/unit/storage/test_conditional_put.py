"""What the library's errors mean. Their texts are the library's own, taken from real answers."""

from __future__ import annotations

import contextlib

import pytest
from obstore import exceptions

from streams_recovery.core.errors import ConfigInvalid, NoRoom, NotFound, RecoveryError, RepositoryUnavailable, StoreUnsuitable
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.conditional_put import CredentialsExpired, NoBucket, Retries, create_once, explained, passes, status_of
from streams_recovery.storage.credentials import access_key

BUCKET = StorageLocation(backend="s3", bucket="b", prefix="p")
DISK = "Generic LocalFileSystem error: Unable to open file /r/key#1: "


def http(status: str, body: str = "", after: str = "") -> exceptions.GenericError:
    """An answer as the library reports it."""
    return exceptions.GenericError(
        f"Generic S3 error: Error performing PUT http://s3/b/p/key in 1.8ms{after} - Server returned non-2xx status code: {status}: {body}\n\n"
        "Debug source:\nGeneric { store: S3 }"
    )


def test_a_session_token_that_expired_is_said_to_be_one_and_the_next_attempt_may_have_another() -> None:
    error = http("400 Bad Request", "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>")
    found = explained(error, doing="reading", key="key", location=BUCKET)
    assert type(found) is CredentialsExpired
    assert "the session token of the credentials has expired" in str(found)
    assert type(explained(http("400 Bad Request", "<Code>InvalidToken</Code>"), doing="a", key="k", location=BUCKET)) is ConfigInvalid


def test_what_a_store_repeats_of_the_credentials_is_not_shown() -> None:
    access_key("key", "0123456789secret", session_token="tok+en/of/a/session==")
    for said in ("tok+en/of/a/session==", "0123456789secret", "tok%2Ben%2Fof%2Fa%2Fsession%3D%3D"):
        error = http("403 Forbidden", f"<Error><Code>InvalidToken</Code><Message>{'x' * 290}{said}</Message></Error>")
        shown = str(explained(error, doing="reading", key="key", location=BUCKET))
        assert "***" in shown
        assert said[:8] not in shown


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (http("503 Service Unavailable"), RepositoryUnavailable),
        (http("500 Internal Server Error"), RepositoryUnavailable),
        (http("429 Too Many Requests"), RepositoryUnavailable),
        (http("409 Conflict"), RepositoryUnavailable),
        (http("409 Conflict", "<Error><Code>ConditionalRequestConflict</Code></Error>"), RepositoryUnavailable),
        (http("409 Conflict", "<Error><Code>ContainerBeingDeleted</Code></Error>"), RepositoryUnavailable),
        (http("409 Conflict", "<Error><Code>BlobImmutableDueToPolicy</Code></Error>"), ConfigInvalid),
        (http("404 Not Found", "<Error><Code>ContainerNotFound</Code></Error>"), NoBucket),
        (http("400 Bad Request"), ConfigInvalid),
        (http("403 Forbidden"), ConfigInvalid),
        (http("404 Not Found", "<Error><Code>NoSuchBucket</Code></Error>"), NoBucket),
        (http("501 Not Implemented"), StoreUnsuitable),
        (http("400 Bad Request", "<Error><Message>Unsupported header x-amz-checksum-sha256</Message></Error>"), StoreUnsuitable),
        (exceptions.GenericError("Error performing GET http://s3/b in 1ms - HTTP error: error sending request"), RepositoryUnavailable),
        (
            exceptions.GenericError("Received redirect without LOCATION, this normally indicates an incorrectly configured region"),
            ConfigInvalid,
        ),
        (exceptions.PermissionDeniedError("no"), ConfigInvalid),
        (exceptions.UnauthenticatedError("no"), ConfigInvalid),
        (exceptions.InvalidPathError("no"), ConfigInvalid),
        (exceptions.NotSupportedError("no"), StoreUnsuitable),
        (FileNotFoundError("no"), NotFound),
        (exceptions.GenericError(f"{DISK}Permission denied (os error 13)"), ConfigInvalid),
        (exceptions.GenericError(f"{DISK}Operation not permitted (os error 1)"), ConfigInvalid),
        (exceptions.GenericError(f"{DISK}Read-only file system (os error 30)"), ConfigInvalid),
        (exceptions.GenericError(f"{DISK}No space left on device (os error 28)"), NoRoom),
        (exceptions.GenericError(f"{DISK}Disk quota exceeded (os error 122)"), NoRoom),
        (http("507 Insufficient Storage"), NoRoom),
        (exceptions.GenericError(f"{DISK}Input/output error (os error 5)"), RepositoryUnavailable),
        (PermissionError(13, "Permission denied"), ConfigInvalid),
        (OSError(28, "No space left on device"), NoRoom),
    ],
    ids=lambda value: str(value).split(" - ")[-1].splitlines()[0][:40] if isinstance(value, Exception) else "",
)
def test_what_passes_is_told_from_what_does_not(error: Exception, kind: type[RecoveryError]) -> None:
    found = explained(error, doing="creating", key="key", location=BUCKET)
    assert type(found) is kind
    assert found.facts["key"] == "key"
    assert passes(error) is (kind is RepositoryUnavailable)


@pytest.mark.parametrize(("code", "asked"), [("BlobAlreadyExists", 1), ("ConditionalRequestConflict", 3)])
def test_a_refusal_with_a_conflict_is_an_answer_on_azure_and_none_on_s3(code: str, asked: int) -> None:
    tokens: list[str] = []

    def put(token: str) -> None:
        tokens.append(token)
        raise exceptions.AlreadyExistsError(f"returned non-2xx status code: 409 Conflict: <Error><Code>{code}</Code></Error>")

    with contextlib.suppress(exceptions.AlreadyExistsError):
        assert create_once(put, lambda _: None, Retries(attempts=3, first_seconds=0.001)) is False
    assert len(tokens) == asked


@pytest.mark.parametrize(("there", "ends"), [(False, False), (True, False), (None, None)])
def test_a_user_who_may_only_create_is_told_of_what_is_there_by_a_refusal(there: bool | None, ends: bool | None) -> None:
    def put(_: str) -> None:
        raise exceptions.PermissionDeniedError("403")

    if ends is None:
        with pytest.raises(exceptions.PermissionDeniedError):
            create_once(put, lambda _: there, Retries(attempts=3))
    else:
        assert create_once(put, lambda _: there, Retries(attempts=3)) is ends


def test_after_a_lost_reply_the_refusal_of_such_a_user_is_about_an_own_object() -> None:
    answers = iter([exceptions.GenericError("status code: 503"), exceptions.PermissionDeniedError("403")])

    def put(_: str) -> None:
        raise next(answers)

    assert create_once(put, lambda _: True, Retries(attempts=3, first_seconds=0.001)) is True


@pytest.mark.parametrize("code", ["403", "409"])
def test_a_deletion_that_azure_does_not_let_us_do_is_not_asked_for_again(code: str) -> None:
    error = exceptions.GenericError(
        f"Generic MicrosoftAzure error: Bulk delete request failed for key k: This is not permitted. (code: {code})"
    )
    assert not passes(error)
    assert type(explained(error, doing="deleting", key="k", location=BUCKET)) is ConfigInvalid


def test_the_server_s_own_words_are_told_and_the_xml_is_not() -> None:
    body = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>InvalidRequest</Code><Message>Content-MD5 is required</Message></Error>'
    error = http("400 Bad Request", body)
    assert status_of(error) == 400
    said = str(explained(error, doing="creating", key="key", location=BUCKET))
    assert "400 Bad Request (InvalidRequest: Content-MD5 is required)" in said
    assert "xml" not in said


def test_a_full_disk_says_what_to_do_about_it() -> None:
    full = exceptions.GenericError(f"{DISK}No space left on device (os error 28)")
    assert "make room there" in str(explained(full, doing="creating", key="key", location=BUCKET))


@pytest.mark.parametrize(
    ("after", "attempts", "said"),
    [("", None, "after 1 attempt:"), (", after 6 retries, max_retries: 6", None, "after 7 attempts:"), ("", 4, "after 4 attempts:")],
)
def test_attempts_are_counted(after: str, attempts: int | None, said: str) -> None:
    found = explained(http("503 Service Unavailable", after=after), doing="reading", key="key", location=BUCKET, attempts=attempts)
    assert said in str(found)
    assert found.facts["attempts"] == int(said.split()[1])


def test_pauses_grow_to_a_limit_and_no_two_writers_wait_alike() -> None:
    retries = Retries(first_seconds=0.2)
    for failed, longest in ((1, 0.2), (2, 0.4), (4, 1.6), (30, 15.0)):
        pauses = {retries.pause(failed) for _ in range(20)}
        assert all(longest / 2 <= pause <= longest for pause in pauses)
        assert len(pauses) > 1
