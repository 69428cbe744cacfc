"""`--date-format` of `kafka-share-perf`: what Java's SimpleDateFormat prints for the same patterns."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from kafka_share.cli.perf.date_format import DEFAULT_PATTERN, DateFormat

TIME_MS = 1_795_300_569_007  # 2026-11-21 22:36:09.007 UTC


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (DEFAULT_PATTERN, "2026-11-21 22:36:09:007"),
        ("dd.MM.yy H:m:s,S", "21.11.26 22:36:9,7"),
        ("yyyyy MMM MMMM ss.SSSSS", "02026 Nov November 09.00007"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "2026-11-21T22:36:09.007Z"),
        ("HH' o''clock'''", "22 o'clock'"),
        ("HH''mm", "22'36"),
        ("", ""),
    ],
)
def test_a_time_is_printed_as_java_does(pattern: str, expected: str) -> None:
    """Runs of letters are padded numbers, text in quotes and everything that is no letter stands for itself."""
    assert DateFormat(pattern).text(TIME_MS, UTC) == expected


def test_a_time_is_that_of_the_zone_when_one_is_given() -> None:
    """The same moment is another date further east."""
    assert DateFormat("dd HH:mm").text(TIME_MS, timezone(timedelta(hours=2))) == "22 00:36"


@pytest.mark.parametrize(("pattern", "reason"), [("qq", "'qq' in 'qq' is not known"), ("HH 'open", "not closed")])
def test_a_pattern_is_refused_when_it_has_other_letters_or_an_open_quote(pattern: str, reason: str) -> None:
    """The error names what is wrong with the pattern."""
    with pytest.raises(ValueError, match=reason):
        DateFormat(pattern)
