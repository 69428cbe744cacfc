"""The pytest plugin, in whole sessions: what its fixtures give, and that it costs nothing where they are not used."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points

import pytest
from support.documentation import ROOT

PLUGIN = "kafka_share.pytest_plugin"

pytestmark = pytest.mark.timeout(180)  # each test runs a pytest of its own, one of them with two workers


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty project. The plugin is named, for an environment that was made before there was one."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "tests")]))
    pytester.makeini("[pytest]\naddopts = -p kafka_share.pytest_plugin -p no:randomly -p no:cacheprovider -W error")
    return pytester


def run(session: pytest.Pytester, *options: str) -> pytest.RunResult:
    """A session in this process, with fixtures and plugins for itself: an interpreter's start takes far longer."""
    return session.runpytest_inprocess("-p", "no:xdist", *options)


def run_in_a_process(session: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Where what is imported matters, or the session has workers; without plugins that take long to import."""
    return session.runpytest_subprocess("-pno:timeout", "-pno:anyio", "-pno:hypothesispytest", *options)


def test_pytest_finds_the_plugin_by_itself_where_the_package_is_installed() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'[project.entry-points.pytest11]\n"{PLUGIN}" = "{PLUGIN}"' in text
    for entry in entry_points(group="pytest11"):
        if entry.name == PLUGIN:
            assert entry.load() is sys.modules[PLUGIN]


def test_nothing_is_imported_and_started_when_no_test_uses_it(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
        import sys, threading

        def test_of_something_else():
            loaded = {name for name in sys.modules if name.startswith("kafka_share")}
            assert loaded == {"kafka_share", "kafka_share._version", "kafka_share.pytest_plugin"}
            assert "asyncio" not in sys.modules
            assert threading.active_count() == 1
        """
    )
    run_in_a_process(session, "-pno:xdist").assert_outcomes(passed=1)


def test_the_broker_is_the_same_for_all_tests_and_empty_for_each(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
        import pytest
        from kafka_share.errors import NotLeaderOrFollowerError

        seen = []

        @pytest.mark.parametrize("turn", range(3))
        def test_it(share_broker, share_broker_session, turn):
            assert share_broker is share_broker_session
            seen.append(share_broker.bootstrap_servers)
            assert share_broker.topics() == {}
            assert share_broker.group_config("g") == {}
            assert share_broker.requests() == []
            share_broker.create_topic("t")
            share_broker.set_group_config("g", share_auto_offset_reset="earliest")
            share_broker.faults.fail("Metadata", NotLeaderOrFollowerError)
            share_broker.advance(1_000)
            if turn == 1:
                share_broker.stop()

        def test_the_address_was_the_same():
            assert len(seen) == 3
            assert len(set(seen)) == 1
        """
    )
    run(session).assert_outcomes(passed=4)


def test_fixtures_of_wider_scope_know_the_address(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def servers(share_broker_session):
            return share_broker_session.bootstrap_servers

        def test_it(servers, share_broker):
            assert servers == share_broker.bootstrap_servers
        """
    )
    run(session).assert_outcomes(passed=1)


def test_a_marked_test_has_a_broker_for_itself(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
        import pytest

        @pytest.mark.share_broker(nodes=3, kafka_version="4.1")
        def test_it(share_broker, share_topic):
            assert len(share_broker.bootstrap_servers.split(",")) == 3
            assert "Kafka 4.1" in repr(share_broker)
            share_topic("t")

        def test_others_have_the_common_one(share_broker):
            assert len(share_broker.bootstrap_servers.split(",")) == 1

        def test_after_the_other_one(share_broker_session):
            assert "running" in repr(share_broker_session)
        """
    )
    result = run(session, "--strict-markers")
    result.assert_outcomes(passed=3)
    run(session, "--markers").stdout.fnmatch_lines(["@pytest.mark.share_broker(*settings): *"])


def test_a_marked_broker_may_ask_who_its_clients_are(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
        import pytest
        from kafka_share.broker import Security
        from kafka_share.errors import AuthenticationError

        @pytest.mark.share_broker(security=Security("SASL_SSL", users={"alice": "a secret"}))
        def test_with_a_password(share_broker, share_topic, share_consumer):
            share_topic("orders", [b"work"])
            (record,) = share_consumer("orders", **share_broker.client_settings("alice")).poll(timeout_ms=20_000)
            assert record.value == b"work"
            wrong = {**share_broker.client_settings("alice"), "sasl_plain_password": "wrong"}
            with pytest.raises(AuthenticationError):
                share_consumer("orders", **wrong).poll(timeout_ms=20_000)

        @pytest.mark.share_broker(security=Security("SSL"))
        def test_with_tls(share_topic, share_consumer):
            share_topic("orders", [b"work"])
            (record,) = share_consumer("orders").poll(timeout_ms=20_000)
            assert record.value == b"work"
        """
    )
    # In this process `cryptography` would be imported twice, which it does not survive.
    run_in_a_process(session).assert_outcomes(passed=2)


def test_topics_are_made_with_their_records(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
        def test_it(share_broker, share_topic):
            assert share_topic("orders", [b"1", ("k", "2", {"h": b"3"})], partitions=2) == "orders"
            assert share_broker.topics() == {"orders": 2}
            first, second = share_broker.records("orders", 0)
            assert (first.value, second.key, second.headers) == (b"1", b"k", (("h", b"3"),))

        def test_a_topic_needs_no_name(share_broker, share_topic):
            assert [share_topic(), share_topic(config={"max.message.bytes": "9"})] == ["topic-1", "topic-2"]
            assert share_broker.topics() == {"topic-1": 1, "topic-2": 1}
        """
    )
    run(session).assert_outcomes(passed=2)


def test_consumers_read_from_the_start_and_are_closed_at_the_end(session: pytest.Pytester) -> None:
    session.makepyfile(
        """
        import pytest
        from kafka_share.errors import ConsumerClosedError

        made = []

        def test_it(share_broker, share_topic, share_consumer):
            topic = share_topic(records=[b"1", b"2"])
            made.append(share_consumer(topic, max_poll_records=1, share_acquire_mode="record_limit"))
            (record,) = made[0].poll(timeout_ms=10_000)
            assert record.value == b"1"
            assert share_broker.groups() == {"test-group": "share"}

        def test_it_is_closed(share_broker):
            with pytest.raises(ConsumerClosedError):
                made[0].poll(timeout_ms=0)
            assert share_broker.groups() == {}

        def test_what_the_test_has_set_stays(share_broker, share_topic, share_consumer):
            share_broker.set_group_config("g", share_auto_offset_reset="latest")
            share_consumer(share_topic(), group_id="g")
            assert share_broker.group_config("g") == {"share.auto.offset.reset": "latest"}
        """
    )
    run(session).assert_outcomes(passed=3)


def test_each_worker_of_xdist_has_a_broker_of_its_own(session: pytest.Pytester) -> None:
    """Both workers are in the same test at the same time: the second one to come lets the first one go."""
    session.makepyfile(
        """
        import pathlib

        import pytest
        from support.waiting import wait_until

        @pytest.mark.parametrize("mine, other", [("a", "b"), ("b", "a")])
        def test_it(mine, other, share_broker, share_topic):
            share_topic(mine)
            pathlib.Path(mine).write_text(share_broker.bootstrap_servers)
            there = pathlib.Path(other)
            wait_until(lambda: there.exists() and there.read_text(), "the other worker did not come")
            assert there.read_text() != share_broker.bootstrap_servers
            assert share_broker.topics() == {mine: 1}
        """
    )
    run_in_a_process(session, "-n", "2", "--rootdir", str(session.path)).assert_outcomes(passed=2)
