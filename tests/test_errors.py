"""The error tree: one class per code, and whose fault it was in the type."""

from __future__ import annotations

import pickle

import pytest

from kafka_share import errors


@pytest.mark.parametrize(("code", "kind"), sorted(errors.ERRORS.items()))
def test_a_code_becomes_its_class_with_the_brokers_text(code: int, kind: type[errors.BrokerError]) -> None:
    error = errors.error_for_code(code, "because")
    assert type(error) is kind
    assert error.code == code
    assert str(error) == f"{kind.name}: because"
    assert str(errors.error_for_code(code)) == f"{kind.name}: {kind.__doc__}"
    assert getattr(errors, kind.__name__) is kind


def test_no_error_comes_of_code_zero() -> None:
    assert errors.error_for_code(0) is None


def test_a_code_that_nobody_knows_keeps_its_number() -> None:
    error = errors.error_for_code(9999, "text")
    assert isinstance(error, errors.UnknownBrokerError)
    assert error.code == 9999
    assert "9999" in str(error)
    assert "text" in str(error)


def test_every_exception_derives_from_the_base() -> None:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, errors.KafkaShareError), value


def test_pythons_own_classes_catch_ours_where_it_has_a_word() -> None:
    assert issubclass(errors.ConfigurationError, ValueError)
    assert issubclass(errors.InvalidArgumentError, ValueError)
    assert issubclass(errors.IllegalStateError, RuntimeError)
    assert issubclass(errors.OperationTimeoutError, TimeoutError)


def test_an_error_survives_pickling_when_it_crosses_processes() -> None:
    for error in (
        errors.error_for_code(69, "gone"),
        errors.error_for_code(9999, "text"),
        errors.CorruptRecordError("damaged", topic="t", partition=1, offset=5),
        errors.RecordDeserializationError(
            "bad", topic="t", partition=1, offset=5, origin="value", key=None, value=b"x", headers=[], timestamp=7
        ),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert again.__dict__ == error.__dict__


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zugriff verweigert: Größe ≥ 3 日本", "Zugriff verweigert: Größe ≥ 3 日本"),
        ("one\r\ntwo\tthree", r"one\r\ntwo\tthree"),
        ("\x1b]0;owned\x07\x9b2J\u202e\u2028", r"\x1b]0;owned\x07\x9b2J\u202e\u2028"),
        ("\udc80", r"\udc80"),
    ],
)
def test_text_of_a_broker_is_printable_in_an_error(text: str, shown: str) -> None:
    assert str(errors.error_for_code(1, text)) == f"OFFSET_OUT_OF_RANGE: {shown}"


def test_text_of_a_broker_is_cut_when_it_is_endless() -> None:
    shown = str(errors.error_for_code(1, "x" * 30_000))
    assert shown.endswith("x… (30000 characters)")
    assert len(shown) < 1_100
