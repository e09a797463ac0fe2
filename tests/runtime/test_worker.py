"""The worker process: results, exceptions, deaths and a stop that never waits."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from broker.errors import ErrorCode, Refusal
from broker.ports import WorkerFault
from broker.records.compression import decompress
from broker.runtime.worker import ProcessWorker


async def test_call_runs_in_another_process() -> None:
    worker = ProcessWorker()
    try:
        assert await worker.call(pow, 2, 10) == 1_024
        assert await worker.call(os.getpid) != os.getpid()
        assert len(await worker.call(bytes, 3_000_000)) == 3_000_000
    finally:
        worker.close()


async def test_exception_comes_back_as_itself() -> None:
    worker = ProcessWorker()
    try:
        with pytest.raises(ValueError, match="invalid literal"):
            await worker.call(int, "x")
        assert await worker.call(int, "7") == 7
    finally:
        worker.close()


async def test_dead_worker_fails_its_call_and_the_next_call_starts_another() -> None:
    worker = ProcessWorker()
    try:
        with pytest.raises(WorkerFault):
            await worker.call(os._exit, 3)
        assert await worker.call(int, "7") == 7
    finally:
        worker.close()


async def test_cancelled_call_does_not_mix_its_answer_with_the_next() -> None:
    worker = ProcessWorker()
    try:
        call = asyncio.create_task(worker.call(time.sleep, 60))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(10):
            assert await worker.call(int, "7") == 7
    finally:
        worker.close()


async def test_close_ends_a_running_call_at_once() -> None:
    worker = ProcessWorker()
    call = asyncio.create_task(worker.call(time.sleep, 60))
    await asyncio.sleep(0.05)
    worker.close()
    async with asyncio.timeout(5):
        with pytest.raises(WorkerFault):
            await call
    with pytest.raises(WorkerFault, match="closed"):
        await worker.call(int, "7")


async def test_result_that_cannot_travel_is_told() -> None:
    worker = ProcessWorker()
    try:
        with pytest.raises(RuntimeError, match="cannot be sent back"):
            await worker.call(memoryview, b"x")
    finally:
        worker.close()


async def test_a_refusal_comes_back_as_itself_and_what_travels_one_way_is_told() -> None:
    worker = ProcessWorker()
    try:
        with pytest.raises(Refusal) as refused:
            await worker.call(decompress, 1, b"no gzip", 10)
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
        assert "not valid gzip" in refused.value.message
        with pytest.raises(RuntimeError, match="cannot be sent back"):
            await worker.call(_raise_one_way)
        assert await worker.call(int, "7") == 7
    finally:
        worker.close()


class OneWay(Exception):
    """Pickled without its second argument."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)
        self.second = second


def _raise_one_way() -> None:
    raise OneWay("a", "b")
