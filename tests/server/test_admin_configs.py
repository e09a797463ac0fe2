"""DescribeConfigs and IncrementalAlterConfigs against a real broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from broker.config.broker import BrokerSettings
from broker.config.setting import settings_of
from broker.config.topic import TopicSettings
from broker.errors import ErrorCode
from broker.wire import api
from broker.wire.messages import alter_configs as legacy
from broker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from broker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"log.index.interval.bytes": 8192}
    with BrokerProcess(tmp_path_factory.mktemp("configs"), settings) as process:
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port) as connection:
        yield connection


def describe(
    client: WireClient,
    *resources: tuple[int, str],
    keys: list[str] | None = None,
    version: int = 4,
    synonyms: bool = False,
    documentation: bool = False,
) -> list[DescribeConfigsResult]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name in resources
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    results: list[DescribeConfigsResult] = client.call(
        api.DESCRIBE_CONFIGS, version, request
    ).results
    return results


def alter(
    client: WireClient,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    dry: bool = False,
) -> AlterConfigsResourceResponse:
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=dry)
    result: AlterConfigsResourceResponse = client.call(
        api.INCREMENTAL_ALTER_CONFIGS, 1, request
    ).responses[0]
    return result


def values(result: DescribeConfigsResult) -> dict[str, str | None]:
    return {config.name: config.value for config in result.configs}


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_has_every_setting_with_type_and_documentation(
    client: WireClient, version: int
) -> None:
    if version == 1:
        client.create_topic("described", retention_ms="5")
    (result,) = describe(
        client, (TOPIC, "described"), version=version, documentation=version >= 3, synonyms=True
    )
    rows = settings_of(TopicSettings)
    assert set(values(result)) == set(rows)
    by_name = {config.name: config for config in result.configs}
    assert (by_name["retention.ms"].value, by_name["retention.ms"].config_source) == ("5", 1)
    assert by_name["index.interval.bytes"].config_source == 4, "the static one of the broker"
    assert [s.name for s in by_name["retention.ms"].synonyms] == [
        "retention.ms",
        "log.retention.ms",
    ]
    if version >= 3:
        assert by_name["retention.ms"].config_type == 5
        assert by_name["cleanup.policy"].config_type == 7
        assert all(config.documentation for config in result.configs)


def test_only_what_is_asked_for(client: WireClient) -> None:
    client.create_topic("keyed")
    (result,) = describe(client, (TOPIC, "keyed"), keys=["retention.ms", "nonsense"])
    assert values(result) == {"retention.ms": "604800000"}
    assert result.configs[0].documentation is None
    assert result.configs[0].synonyms == []


def test_a_broker_has_every_setting_and_says_which_need_a_restart(client: WireClient) -> None:
    (result,) = describe(client, (BROKER, "0"))
    rows = settings_of(BrokerSettings)
    assert {config.name: config.read_only for config in result.configs} == {
        name: not row.is_live for name, row in rows.items()
    }
    assert values(result)["log.index.interval.bytes"] == "8192"
    assert describe(client, (BROKER, ""))[0].configs == []


def test_many_resources_are_answered_in_order_with_errors_in_place(client: WireClient) -> None:
    client.create_topic("many")
    wanted = [(TOPIC, "many"), (TOPIC, "nobody"), (TOPIC, "no/body"), (BROKER, "7"), (8, "0")] * 4
    results = describe(client, *wanted, keys=["retention.ms"])
    assert [(item.resource_type, item.resource_name) for item in results] == wanted
    assert [item.error_code for item in results[:5]] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert all(item.error_message for item in results if item.error_code)


def test_a_change_of_a_topic_acts_at_once(client: WireClient) -> None:
    client.create_topic("live")
    assert client.produce("live", [(b"k", b"v" * 1000)]).error_code == 0
    assert alter(client, TOPIC, "live", ("max.message.bytes", SET, "500")).error_code == 0
    refused = client.produce("live", [(b"k", b"v" * 1000)]).error_code
    assert refused == ErrorCode.MESSAGE_TOO_LARGE
    assert alter(client, TOPIC, "live", ("max.message.bytes", DELETE, None)).error_code == 0
    assert client.produce("live", [(b"k", b"v" * 1000)]).error_code == 0


def test_lists_are_appended_to_and_subtracted_from(client: WireClient) -> None:
    client.create_topic("listed")
    assert alter(client, TOPIC, "listed", ("cleanup.policy", APPEND, "compact")).error_code == 0
    (result,) = describe(client, (TOPIC, "listed"), keys=["cleanup.policy"])
    assert values(result) == {"cleanup.policy": "delete,compact"}
    assert alter(client, TOPIC, "listed", ("cleanup.policy", SUBTRACT, "delete")).error_code == 0
    (result,) = describe(client, (TOPIC, "listed"), keys=["cleanup.policy"])
    assert values(result) == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("retention.m", SET, "1"), "did you mean retention.ms"),
        (("retention.ms", SET, "-2"), "must be at least -1 ms"),
        (("retention.ms", APPEND, "1"), "not a list"),
        (("retention.ms", 7, "1"), "no operation 7"),
        (("durability", SET, "disk"), "must be one of fsync, replicated"),
        (("flush.messages", SET, "1000"), "must be 1 "),
        (("flush.ms", SET, "1000"), "no timed syncs"),
    ],
)
def test_a_wrong_change_is_refused_with_a_sentence_and_nothing_is_changed(
    client: WireClient, change: tuple[str, int, str | None], reason: str
) -> None:
    name = "refusing"
    client.call(api.METADATA, 9, _auto(name))
    result = alter(client, TOPIC, name, ("segment.bytes", SET, "2048"), change)
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert reason in (result.error_message or "")
    (described,) = describe(client, (TOPIC, name), keys=["segment.bytes"])
    assert values(described) == {"segment.bytes": str(1 << 30)}


def test_a_refusal_of_a_thousand_settings_fits_into_an_answer(client: WireClient) -> None:
    """A client reads no text above 32,767 bytes, and version 1 cannot even carry one."""
    name = "storm"
    client.call(api.METADATA, 9, _auto(name))
    settings: dict[str, str | None] = {
        f"no.such.setting.{number:0100}": "v" for number in range(1000)
    }
    for version in (1, 2):
        code, message = replace(client, TOPIC, name, settings, version=version)
        assert code == ErrorCode.INVALID_CONFIG
        assert (message or "").startswith("no.such.setting.0")
        assert (message or "").endswith("…")
    settings = {"retention.ms": "٣" * 16_000}
    code, message = replace(client, TOPIC, name, settings)
    assert code == ErrorCode.INVALID_CONFIG
    assert "whole number" in (message or "")


def test_validation_only_changes_nothing(client: WireClient) -> None:
    client.create_topic("dry")
    assert alter(client, TOPIC, "dry", ("retention.ms", SET, "1"), dry=True).error_code == 0
    (result,) = describe(client, (TOPIC, "dry"), keys=["retention.ms"])
    assert values(result) == {"retention.ms": "604800000"}


def test_unknown_and_internal_resources(client: WireClient) -> None:
    change = ("retention.ms", SET, "1")
    assert alter(client, TOPIC, "nobody", change).error_code == 3
    assert alter(client, BROKER, "9", change).error_code == ErrorCode.INVALID_REQUEST
    assert alter(client, BROKER, "x", change).error_code == ErrorCode.INVALID_REQUEST
    assert alter(client, 32, "group", change).error_code == ErrorCode.INVALID_REQUEST
    twice = AlterConfigsResource(resource_type=TOPIC, resource_name="x")
    request = IncrementalAlterConfigsRequest(resources=[twice, twice])
    responses = client.call(api.INCREMENTAL_ALTER_CONFIGS, 0, request).responses
    assert [item.error_code for item in responses] == [ErrorCode.INVALID_REQUEST] * 2


def test_settings_that_need_a_restart_are_refused_with_a_sentence(client: WireClient) -> None:
    result = alter(client, BROKER, "0", ("log.dir", SET, "/tmp"))
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert "restart" in (result.error_message or "")


def test_a_brokers_default_changes_live_and_survives_a_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("follows")
            client.create_topic("own", retention_ms="7")
            change = ("log.retention.ms", SET, "1000")
            assert alter(client, BROKER, "", change).error_code == 0
            assert alter(client, BROKER, "0", ("num.partitions", SET, "3")).error_code == 0
            wrong = alter(client, BROKER, "", ("message.max.bytes", SET, "200000000"))
            assert wrong.error_code == ErrorCode.INVALID_CONFIG
            assert "socket.request.max.bytes" in (wrong.error_message or "")
        broker.restart()
        with WireClient(broker.kafka_port) as client:
            wanted = [(TOPIC, "follows"), (TOPIC, "own")]
            follows, own = describe(client, *wanted, keys=["retention.ms"])
            assert (follows.configs[0].value, follows.configs[0].config_source) == ("1000", 3)
            assert (own.configs[0].value, own.configs[0].config_source) == ("7", 1)
            (cluster,) = describe(client, (BROKER, ""))
            assert values(cluster) == {"log.retention.ms": "1000"}
            node, *_ = describe(client, (BROKER, "0"), keys=["num.partitions"])
            assert (node.configs[0].value, node.configs[0].config_source) == ("3", 2)
            found = client.call(api.METADATA, 9, _auto("born")).topics[0]
            assert len(found.partitions) == 3
            assert alter(client, BROKER, "", ("log.retention.ms", DELETE, None)).error_code == 0
            (follows,) = describe(client, (TOPIC, "follows"), keys=["retention.ms"])
            assert values(follows) == {"retention.ms": "604800000"}


def _auto(name: str) -> object:
    from broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


def replace(
    client: WireClient,
    kind: int,
    name: str,
    settings: Mapping[str, str | None],
    *,
    dry: bool = False,
    version: int = 2,
) -> tuple[int, str | None]:
    """AlterConfigs of one resource: (error code, message)."""
    resource = legacy.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[legacy.AlterableConfig(name=key, value=value) for key, value in settings.items()],
    )
    request = legacy.AlterConfigsRequest(resources=[resource], validate_only=dry)
    (answer,) = client.call(api.ALTER_CONFIGS, version, request).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer.error_code, answer.error_message


def own(client: WireClient, kind: int, name: str) -> dict[str, str | None]:
    """What was set for this resource itself."""
    (result,) = describe(client, (kind, name))
    source = {TOPIC: 1, BROKER: 2 if name else 3}[kind]
    return {item.name: item.value for item in result.configs if item.config_source == source}


@pytest.mark.parametrize("version", range(3))
def test_the_older_way_replaces_all_settings_of_a_topic(client: WireClient, version: int) -> None:
    topic = f"replaced-{version}"
    client.create_topic(topic, retention_ms="1000", max_message_bytes="2000")
    wanted = {"retention.ms": "5", "segment.bytes": "4096"}
    assert replace(client, TOPIC, topic, wanted, version=version) == (0, None)
    assert own(client, TOPIC, topic) == wanted
    assert client.produce(topic, [(b"k", b"v" * 3_000)]).error_code == 0, "in force at once"
    assert replace(client, TOPIC, topic, {}, version=version) == (0, None)
    assert own(client, TOPIC, topic) == {}


def test_the_older_way_changes_nothing_when_it_only_validates_or_refuses(
    client: WireClient,
) -> None:
    client.create_topic("tried", retention_ms="1000")
    assert replace(client, TOPIC, "tried", {"segment.bytes": "4096"}, dry=True) == (0, None)
    refusals: dict[str, tuple[dict[str, str | None], ErrorCode]] = {
        "must be a whole number": ({"retention.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        "unknown setting": ({"retention.mss": "5"}, ErrorCode.INVALID_CONFIG),
        "has no value": ({"retention.ms": None}, ErrorCode.INVALID_REQUEST),
    }
    for text, (settings, code) in refusals.items():
        found, message = replace(client, TOPIC, "tried", {"segment.bytes": "4096", **settings})
        assert (found, text in (message or "")) == (code, True)
    assert own(client, TOPIC, "tried") == {"retention.ms": "1000"}


def test_the_older_way_replaces_what_is_dynamic_of_brokers(client: WireClient) -> None:
    for name in ("0", ""):
        assert replace(client, BROKER, name, {"fetch.max.bytes": "2048"}) == (0, None)
        assert own(client, BROKER, name) == {"fetch.max.bytes": "2048"}
        wanted = {"max.connections": "500"}
        assert replace(client, BROKER, name, wanted) == (0, None)
        assert own(client, BROKER, name) == wanted
        assert replace(client, BROKER, name, {}) == (0, None)
        assert own(client, BROKER, name) == {}
    read_only, message = replace(client, BROKER, "0", {"log.dir": "/elsewhere"})
    assert read_only == ErrorCode.INVALID_REQUEST
    assert "read-only" in (message or "")


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "77", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (8, "0", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_both_ways_refuse_what_has_no_settings(
    client: WireClient, kind: int, name: str, code: ErrorCode
) -> None:
    assert replace(client, kind, name, {})[0] == code
    assert alter(client, kind, name).error_code == code


def test_a_setting_twice_or_without_a_value_or_a_resource_twice_is_refused(
    client: WireClient,
) -> None:
    client.create_topic("doubled")
    setting = legacy.AlterableConfig(name="retention.ms", value="5")
    doubled = legacy.AlterConfigsResource(
        resource_type=TOPIC, resource_name="doubled", configs=[setting, setting]
    )
    single = legacy.AlterConfigsResource(
        resource_type=TOPIC, resource_name="doubled", configs=[setting]
    )
    assert alter(client, TOPIC, "doubled", ("retention.ms", SET, None)).error_code == (
        ErrorCode.INVALID_REQUEST
    )
    for resources in ([doubled], [single, single]):
        request = legacy.AlterConfigsRequest(resources=resources)
        answers = client.call(api.ALTER_CONFIGS, 2, request).responses
        codes = {answer.error_code for answer in answers}
        assert codes == {ErrorCode.INVALID_REQUEST}
    assert own(client, TOPIC, "doubled") == {}
