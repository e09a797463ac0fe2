"""The error table against kio's."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KioErrorCode

from broker.errors import ERRORS, RETRIABLE, ErrorCode, error_code


def test_every_code_has_a_meaning_of_its_own() -> None:
    assert set(ERRORS) == set(ErrorCode)
    meanings = [row.meaning for row in ERRORS.values()]
    assert len(set(meanings)) == len(meanings)


def test_codes_and_retriability_are_kafkas() -> None:
    for theirs in KioErrorCode:
        ours = ErrorCode(theirs.value)
        assert ours.name.lower() == theirs.name.lower()
        assert (ours in RETRIABLE) == theirs.retriable, ours.name


def test_a_number_of_a_newer_broker_reads_as_unknown_server_error() -> None:
    assert error_code(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error_code(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
