"""InitProducerId: ids are unique for ever, epochs follow KIP-360."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import ErrorCode, Refusal
from broker.metastore.memory import MemoryMetastore
from broker.server.producer_ids import BLOCK_SIZE, LAST_EPOCH, ProducerIds
from broker.wire import api
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("producers")) as process:
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port) as connection:
        yield connection


def init(client: WireClient, version: int = 5, **fields: object) -> InitProducerIdResponse:
    request = InitProducerIdRequest(
        **{"transactional_id": None, "transaction_timeout_ms": 60_000, **fields}
    )
    answer: InitProducerIdResponse = client.call(api.INIT_PRODUCER_ID, version, request)
    return answer


@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_a_new_id_with_epoch_0(client: WireClient, version: int) -> None:
    first, second = init(client, version), init(client, version)
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert second.producer_id != first.producer_id >= 0


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_id_is_refused_for_good(client: WireClient, version: int) -> None:
    refused = init(client, version, transactional_id="t")
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refused.producer_id == -1
    assert init(client, version, transactional_id="").error_code == ErrorCode.INVALID_REQUEST


def test_a_present_epoch_is_raised_and_the_repeated_request_gets_the_same(
    client: WireClient,
) -> None:
    mine = init(client).producer_id
    for _ in range(2):
        raised = init(client, producer_id=mine, producer_epoch=0)
        assert (raised.error_code, raised.producer_id, raised.producer_epoch) == (0, mine, 1)
    raised = init(client, producer_id=mine, producer_epoch=1)
    assert raised.producer_epoch == 2
    fenced = init(client, 4, producer_id=mine, producer_epoch=0)
    assert fenced.error_code == ErrorCode.PRODUCER_FENCED
    fenced = init(client, 3, producer_id=mine, producer_epoch=0)
    assert fenced.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    never_given = init(client, producer_id=10**15, producer_epoch=0)
    assert never_given.error_code == ErrorCode.PRODUCER_FENCED


def test_id_and_epoch_come_together(client: WireClient) -> None:
    for fields in (
        {"producer_id": 1},
        {"producer_epoch": 1},
        {"producer_id": -2, "producer_epoch": 0},
    ):
        assert init(client, **fields).error_code == ErrorCode.INVALID_REQUEST


def test_after_the_last_epoch_comes_a_new_id(client: WireClient) -> None:
    mine = init(client).producer_id
    renewed = init(client, producer_id=mine, producer_epoch=LAST_EPOCH)
    assert (renewed.error_code, renewed.producer_epoch) == (0, 0)
    assert renewed.producer_id != mine


def test_ids_are_never_repeated_after_a_kill(tmp_path: Path) -> None:
    seen: set[int] = set()
    with BrokerProcess(tmp_path) as broker:
        for _ in range(2):
            with WireClient(broker.kafka_port) as client:
                for _ in range(3):
                    given = init(client).producer_id
                    assert given not in seen
                    seen.add(given)
            broker.restart()


async def test_ids_of_two_brokers_on_one_metastore_differ() -> None:
    store = MemoryMetastore()
    first, second = ProducerIds(store), ProducerIds(store)
    given = [
        (await source.new_identity()).producer_id
        for _ in range(BLOCK_SIZE + 1)
        for source in (first, second)
    ]
    assert len(set(given)) == len(given)


async def test_epochs_that_were_forgotten_are_taken_at_their_word() -> None:
    store = MemoryMetastore()
    given = await ProducerIds(store).new_identity()
    after_restart = ProducerIds(store)
    assert (await after_restart.next_epoch(given.producer_id, 7)).epoch == 8
    with pytest.raises(Refusal):
        await after_restart.next_epoch(given.producer_id, 3)
