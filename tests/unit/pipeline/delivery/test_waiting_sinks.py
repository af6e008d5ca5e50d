"""A sink waits exactly while `deliver` would have something to do for it."""

from dataclasses import replace

import pytest

from pststream.delivery.sinks.contract import SinkDown
from pststream.delivery.sinks.settings import SinkSettings
from pststream.pipeline.delivery.deliver import deliver, waiting_sinks
from pststream.settings import Settings
from pststream.state.home import Home
from tests.matched_homes import add_matched_batch, add_subscriptions
from tests.sinks import Memory

SETTINGS = Settings(sinks=tuple(SinkSettings(name, "file", "x") for name in "ab"), delivery_seconds=20)


def test_no_sink_waits_without_a_batch(hand_home: Home) -> None:
    assert waiting_sinks(hand_home, SETTINGS) == []
    assert waiting_sinks(hand_home, Settings()) == []


def test_sinks_wait_until_they_have_all_batches(hand_home: Home) -> None:
    keys = add_subscriptions(hand_home, 4)
    for seed in (1, 2):
        add_matched_batch(hand_home, keys, 6, seed=seed)
        assert waiting_sinks(hand_home, SETTINGS) == ["a", "b"]
        deliver(hand_home, SETTINGS, only="a", opener=lambda sink: Memory())
        assert waiting_sinks(hand_home, SETTINGS) == ["b"]
        deliver(hand_home, SETTINGS, opener=lambda sink: Memory())
        assert waiting_sinks(hand_home, SETTINGS) == []
    later = replace(SETTINGS, sinks=(SinkSettings("c", "file", "x", from_batch=3),))
    assert waiting_sinks(hand_home, later) == []


def test_a_sink_that_is_down_or_fails_waits(hand_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(sink: SinkSettings) -> Memory:
        raise SinkDown("not today") if sink.name == "a" else OSError

    add_matched_batch(hand_home, add_subscriptions(hand_home, 4), 6, seed=1)
    deliver(hand_home, SETTINGS, opener=lambda sink: Memory())
    deliver(hand_home, SETTINGS, opener=fail)
    assert waiting_sinks(hand_home, SETTINGS) == ["a", "b"], "no batch is left, but each needs attention"
