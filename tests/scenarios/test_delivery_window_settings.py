"""What users of three admin clients are told when settings do not go with a delivery window: the
table of docs/delivery-window.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest

from broker.client.blocking import BlockingClient
from tests.scenarios.window_admins import ADMINS, Refused, WindowAdmin
from tests.support.broker_process import BrokerProcess

WINDOW = {"message.timestamp.type": "LogAppendTime"}
DELAY = {"delivery.delay.ms": "1000"}
TTL = {"delivery.ttl.ms": "1000"}
NEEDS_TYPE = "needs message.timestamp.type=LogAppendTime, found CreateTime"
NEEDS_DELETE = "needs cleanup.policy=delete, found compact"
EXPIRE_EARLY = "(1000): records would expire before they are due"
DELETED_EARLY = "(1000): records would be deleted before they are due"

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("settings")) as process:
        yield process


@pytest.fixture(params=sorted(ADMINS))
def admin(request: pytest.FixtureRequest, broker: BrokerProcess) -> WindowAdmin:
    return ADMINS[request.param](broker.bootstrap)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"t{abs(hash(request.node.nodeid))}"


def told(reason: str) -> str:
    """A pattern for the error's name, as each library writes it, and the broker's sentence."""
    return f"(INVALID_CONFIG|InvalidConfigurationError).*{re.escape(reason)}"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (DELAY, f"delivery.delay.ms=1000 {NEEDS_TYPE}"),
        (TTL, f"delivery.ttl.ms=1000 {NEEDS_TYPE}"),
        ({**WINDOW, **DELAY, "cleanup.policy": "compact"}, f"delay.ms=1000 {NEEDS_DELETE}"),
        ({**WINDOW, **TTL, "cleanup.policy": "compact,delete"}, f"ttl.ms=1000 {NEEDS_DELETE}"),
        ({**WINDOW, **DELAY, **TTL}, EXPIRE_EARLY),
        ({**WINDOW, **DELAY, "retention.ms": "1000"}, DELETED_EARLY),
    ],
)
def test_who_creates_a_topic_with_a_window_that_cannot_work_is_told_why(
    admin: WindowAdmin, topic: str, settings: Mapping[str, str], reason: str
) -> None:
    with pytest.raises(Refused, match=told(reason)):
        admin.create(topic, settings)
    admin.create(topic, WINDOW)  # the name is still free


@pytest.mark.parametrize(
    ("present", "change", "reason"),
    [
        ({}, DELAY, NEEDS_TYPE),
        ({**WINDOW, **DELAY}, {"message.timestamp.type": "CreateTime"}, NEEDS_TYPE),
        ({**WINDOW, **TTL}, {"cleanup.policy": "compact"}, NEEDS_DELETE),
        ({**WINDOW, **DELAY}, TTL, EXPIRE_EARLY),
        ({**WINDOW, **TTL}, DELAY, EXPIRE_EARLY),
        ({**WINDOW, **DELAY}, {"retention.ms": "1000"}, DELETED_EARLY),
    ],
)
def test_who_changes_a_topic_to_a_window_that_cannot_work_is_told_why_and_nothing_changes(
    broker: BrokerProcess,
    admin: WindowAdmin,
    topic: str,
    present: Mapping[str, str],
    change: Mapping[str, str],
    reason: str,
) -> None:
    admin.create(topic, present)
    with BlockingClient(broker.bootstrap, timeout_ms=20_000) as client:
        before = client.topic_configs([topic])
        with pytest.raises(Refused, match=told(reason)):
            admin.alter(topic, {**present, **change})
        assert client.topic_configs([topic]) == before
