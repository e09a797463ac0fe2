"""One slice of a search: take the lease, look for SLICE_S, save as it goes, give the lease back.

A slice has a number. Delivered twice, late, or by a worker that was thought dead, it finds another
number or another holder and does nothing; every save asks again, so that cancelling acts within
SAVE_EVERY_S. Positions and found messages are saved together.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from django.db import DatabaseError, transaction
from django.db.models import F

from broker.client.batches import FetchedBatches
from broker.client.blocking import BrokerRefusal, ClientError, ErrorCode
from hermes_console.connect import client_for
from hermes_console.errors import trouble_of
from hermes_console.fetching import Fetch, fetch_from
from hermes_console.searches.criteria import Criteria, Matcher
from hermes_console.searches.models import SearchHit, SearchJob, State
from hermes_console.searches.scan import Tally, end_of, scan

SLICE_S: Final = 3.0
SAVE_EVERY_S: Final = 0.5
LEASE_MS: Final = 20_000
"""Longer than a slice and the longest call of the client together."""
FETCH_BYTES: Final = 4 * 1024 * 1024
FAILURES_MAX: Final = 5
RETRY_AFTER_MS: Final = 1_000
BUG: Final = "The console failed at this search; its log says why."


def run_slice(key: str, number: int) -> int | None:
    """Do slice `number` of the job. Returns the number of the next one, None when there is none or
    it is not ours to ask for. A bug of ours ends the search, too: it would be woken for ever.
    """
    owner = secrets.token_hex(16)
    now_ms = _now_ms()
    is_ours = SearchJob.objects.filter(
        key=key, slice_number=number, state=State.RUNNING, lease_until_ms__lte=now_ms
    ).update(lease_owner=owner, lease_until_ms=now_ms + LEASE_MS, reason="")
    if not is_ours:
        return None
    job = SearchJob.objects.select_related("cluster").get(key=key)
    try:
        return _take_slice(job, owner)
    except DatabaseError:
        raise  # it passes: the lease runs out, and `wake` asks again
    except Exception:
        SearchJob.objects.filter(pk=job.pk, lease_owner=owner, state=State.RUNNING).update(
            state=State.FAILED,
            reason=BUG,
            lease_owner="",
            lease_until_ms=0,
            updated_at_ms=_now_ms(),
        )
        raise


def _take_slice(job: SearchJob, owner: str) -> int | None:
    work = _Slice(job, owner)
    client = client_for(job.cluster)
    try:
        if client.describe_topic(job.topic).topic_id.hex() != job.topic_id:
            work.give_up(f"Topic {job.topic} was deleted and made anew: start a new search.")
            return None
        work.run(fetch_from(client, job.topic, purpose="search"))
    except ClientError as error:
        return work.fail(error)
    return work.end()


class _Slice:
    """The work on one slice; `positions` and `tally` are what is not yet saved."""

    def __init__(self, job: SearchJob, owner: str) -> None:
        self._job = job
        self._owner = owner
        self._matcher = Matcher(Criteria.from_json(job.criteria))
        self._positions = {int(one): int(at) for one, at in job.positions.items()}
        self._ends = {int(one): int(at) for one, at in job.ends.items()}
        self._tally = Tally()
        self._began_s = self._saved_s = time.monotonic()
        self._is_ours = True

    @property
    def _room(self) -> int:
        return self._job.hits_limit - self._job.hit_count - len(self._tally.found)

    def run(self, fetch: Fetch) -> None:
        """Look until the slice's time is up, the search is over, or it is no longer ours."""
        with ThreadPoolExecutor(1, thread_name_prefix="search-fetch") as pool:
            ahead: tuple[tuple[int, int], Future[FetchedBatches | None]] | None = None
            while self._is_ours and self._room > 0:
                place = self._next_place()
                if place is None or time.monotonic() - self._began_s >= SLICE_S:
                    break
                if ahead is None or ahead[0] != place:
                    ahead = (place, pool.submit(_fetch_one, fetch, *place))
                answer = ahead[1].result()
                ahead = self._look(pool, fetch, place, answer)
                if time.monotonic() - self._saved_s >= SAVE_EVERY_S:
                    self._save()

    def _look(
        self,
        pool: ThreadPoolExecutor,
        fetch: Fetch,
        place: tuple[int, int],
        answer: FetchedBatches | None,
    ) -> tuple[tuple[int, int], Future[FetchedBatches | None]] | None:
        """Scan an answer, while the next one is on its way. Returns that one."""
        partition, position = place
        end = self._ends[partition]
        following = position if answer is None else end_of(answer, position)
        if answer is None or following == position:  # nothing (more) is stored up to the end
            self._positions[partition] = end
            return None
        ahead = None
        if following < end:
            after = (partition, following)
            ahead = (after, pool.submit(_fetch_one, fetch, *after))
        self._positions[partition] = scan(
            answer,
            self._matcher,
            partition,
            position,
            end,
            self._tally,
            self._room + len(self._tally.found),
        )
        return ahead

    def _next_place(self) -> tuple[int, int] | None:
        for partition, position in self._positions.items():
            if position < self._ends[partition]:
                return partition, position
        return None

    def end(self) -> int | None:
        """Save, and either end the search or leave it for the next slice, whose number this is."""
        if not self._is_ours:
            return None
        if self._next_place() is None:
            return self._save(state=State.DONE, reason="All messages were looked at.")
        if self._room <= 0:
            found = self._job.hit_count + len(self._tally.found)
            return self._save(
                state=State.FULL, reason=f"{found} messages were found, as many as one run keeps."
            )
        return self._save(failures=0, reason="")

    def give_up(self, reason: str) -> None:
        """End the search for good."""
        self._save(state=State.FAILED, reason=reason)

    def fail(self, error: ClientError) -> int | None:
        """Save; try again a few times when it may pass, else end with the reason."""
        failures = self._job.failures + 1
        trouble = trouble_of(error)
        reason = str(error) if trouble is None else trouble.detail
        if error.is_retriable and failures < FAILURES_MAX:
            self._save(failures=failures, reason=reason, lease_until_ms=_now_ms() + RETRY_AFTER_MS)
            return None  # `wake` asks for it
        return self._save(state=State.FAILED, reason=reason, failures=0)

    def _save(self, **changes: Any) -> int | None:
        """Save progress if the job is still ours; with `changes`, the slice is over."""
        now_s, now_ms = time.monotonic(), _now_ms()
        tally, self._tally = self._tally, Tally()
        is_over = bool(changes)
        values: dict[str, Any] = {
            "positions": {str(one): str(at) for one, at in self._positions.items()},
            "scanned_records": F("scanned_records") + tally.records,
            "scanned_bytes": F("scanned_bytes") + tally.bytes,
            "unreadable_batches": F("unreadable_batches") + tally.unreadable_batches,
            "hit_count": F("hit_count") + len(tally.found),
            "busy_ms": F("busy_ms") + int((now_s - self._saved_s) * 1000),
            "updated_at_ms": now_ms,
            "lease_until_ms": 0 if is_over else now_ms + LEASE_MS,
            **changes,
        }
        if is_over:
            values |= {"slice_number": self._job.slice_number + 1, "lease_owner": ""}
        with transaction.atomic():
            is_saved = SearchJob.objects.filter(
                pk=self._job.pk, lease_owner=self._owner, state=State.RUNNING
            ).update(**values)
            if is_saved:
                SearchHit.objects.bulk_create(
                    [SearchHit(job_id=self._job.pk, **one._asdict()) for one in tally.found]
                )
        self._saved_s = now_s
        self._is_ours = bool(is_saved)
        self._job.hit_count += len(tally.found)
        if not is_saved or not is_over or values.get("state", State.RUNNING) != State.RUNNING:
            return None
        return self._job.slice_number + 1


def _fetch_one(fetch: Fetch, partition: int, position: int) -> FetchedBatches | None:
    """What is stored from there on; None when retention has taken all of it."""
    answer = fetch({partition: position}, FETCH_BYTES).get(partition)
    if not isinstance(answer, BrokerRefusal):
        return answer
    if answer.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
        raise answer
    return None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


Enqueue = Callable[[str, int], object]


def wake(enqueue: Enqueue, *, idle_ms: int) -> int:
    """Ask again for the slices that nobody has taken for `idle_ms`: their message was lost with a
    worker, or they wait after a failure. Returns how many.
    """
    now_ms = _now_ms()
    due = SearchJob.objects.filter(
        state=State.RUNNING, lease_until_ms__lte=now_ms, updated_at_ms__lte=now_ms - idle_ms
    ).values_list("key", "slice_number")[:WOKEN_MAX]
    woken = 0
    for key, number in due:
        # Marked first: the next beat does not ask for the same slice again at once.
        if SearchJob.objects.filter(key=key, slice_number=number, state=State.RUNNING).update(
            updated_at_ms=now_ms
        ):
            enqueue(key, number)
            woken += 1
    return woken


WOKEN_MAX: Final = 100
