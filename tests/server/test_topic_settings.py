"""Settings that a restart finds at odds: the topic serves, and keeps what its data depends on."""

from __future__ import annotations

from broker.config.topic import TopicSettings
from broker.server.topics import lenient_settings

DELAYED = TopicSettings(message_timestamp_type="LogAppendTime", delivery_delay_ms=1_000)


def test_a_compacted_topic_stays_compacted_under_defaults_that_have_a_window() -> None:
    settings = lenient_settings("t", DELAYED, {"cleanup.policy": "compact", "segment.ms": "5"})
    assert settings.cleanup_policy == ("compact",)
    assert (settings.delivery_delay_ms, settings.segment_ms) == (0, 5)


def test_a_window_ends_where_the_defaults_are_compacted_now() -> None:
    overrides = {"delivery.ttl.ms": "9", "message.timestamp.type": "LogAppendTime"}
    settings = lenient_settings("t", TopicSettings(cleanup_policy=("compact",)), overrides)
    assert settings.cleanup_policy == ("compact",)
    assert settings.delivery_ttl_ms == -1
    assert settings.message_timestamp_type == "LogAppendTime"


def test_a_window_survives_a_neighbour_that_this_version_does_not_know() -> None:
    overrides = {
        "delivery.delay.ms": "7",
        "message.timestamp.type": "LogAppendTime",
        "from.the.future": "1",
    }
    settings = lenient_settings("t", TopicSettings(), overrides)
    assert settings.delivery_delay_ms == 7
