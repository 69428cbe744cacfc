"""Which version of an API is spoken with a broker."""

from __future__ import annotations

import pytest

from kafka_share.errors import UnsupportedVersionError
from kafka_share.protocol.handshake import ApiVersionsResponse
from kafka_share.protocol.logs import FetchRequest
from kafka_share.protocol.share_fetch import ShareFetchRequest
from kafka_share.protocol.versions import choose_version, ranges_of


def test_an_answer_becomes_ranges_when_it_is_read() -> None:
    api = ApiVersionsResponse.ApiVersion
    answer = ApiVersionsResponse(
        api_keys=[api(api_key=78, min_version=1, max_version=2), api(api_key=1, min_version=4, max_version=18)]
    )
    assert ranges_of(answer) == {78: (1, 2), 1: (4, 18)}


@pytest.mark.parametrize(
    ("offered", "chosen"), [((1, 1), 1), ((1, 2), 2), ((1, 9), 2), ((2, 9), 2), ((0, 1), 1)]
)  # fmt: skip
def test_the_highest_common_version_is_chosen_when_there_is_one(offered: tuple[int, int], chosen: int) -> None:
    assert choose_version(ShareFetchRequest, {78: offered}) == chosen
    assert choose_version(ShareFetchRequest(), {78: offered}) == chosen


def test_the_api_and_both_ranges_are_named_when_there_is_no_common_version() -> None:
    with pytest.raises(
        UnsupportedVersionError, match=r"ShareFetch \(API 78\) in the versions 3 to 4; needed is 1 to 2"
    ):
        choose_version(ShareFetchRequest, {78: (3, 4)})
    with pytest.raises(UnsupportedVersionError, match=r"Fetch \(API 1\) in the versions 0 to 3; needed is 4 to 18"):
        choose_version(FetchRequest, {1: (0, 3)})
    with pytest.raises(UnsupportedVersionError, match=r"1 to 1; needed is 2 to 2"):
        choose_version(ShareFetchRequest, {78: (1, 1)}, min_version=2)


def test_the_api_is_named_when_the_broker_does_not_offer_it() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"does not offer ShareFetch \(API 78\)"):
        choose_version(ShareFetchRequest, {1: (4, 18)})
