"""What a search takes for a hit: the quick look at a batch's bytes never loses one."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.client.batches import FetchedBatches, Record
from broker.records.build import NewRecord, build_batch
from hermes_console.searches.criteria import BadCriteria, Criteria, Matcher, parse_path
from hermes_console.searches.scan import Tally, scan

WORDS = st.sampled_from(["a", "id", "name", "é", 'q"x', "Berlin", "10", ""])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    WORDS,
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(float),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


def record_of(value: bytes | None, **changes: Any) -> Record:
    fields = {"offset": 0, "timestamp": 0, "key": b"k", "value": value, "headers": ()}
    return Record(**{**fields, **changes})


def at(value: Any, path: list[str | int]) -> tuple[bool, Any]:
    for step in path:
        if (isinstance(step, str) and isinstance(value, dict) and step in value) or (
            isinstance(step, int) and isinstance(value, list) and step < len(value)
        ):
            value = value[step]
        else:
            return False, None
    return True, value


@settings(deadline=None)
@given(VALUES, st.lists(WORDS | st.integers(0, 2), min_size=1, max_size=3), SCALARS, st.booleans())
def test_json_at_a_path_is_found_however_it_is_written(
    value: Any, path: list[str | int], wanted: Any, is_ascii: bool
) -> None:
    is_there, found = at(value, path)
    if is_there and found is not None and not isinstance(found, list | dict):
        wanted = found  # half of the examples should match
    text = "$" + "".join(
        f"[{step}]" if isinstance(step, int) else f"[{json.dumps(step)}]" for step in path
    )
    criteria = Criteria(json_path=text, json_equals=json.dumps(wanted)).checked()
    sent = json.dumps(value, ensure_ascii=is_ascii).encode()
    expected = is_there and type(found) is type(wanted) and found == wanted
    if is_there and isinstance(found, str) and found == json.dumps(wanted):
        expected = True  # 10 is asked for, "10" is there: as it is typed
    numbers = (int, float)
    if is_there and type(found) in numbers and type(wanted) in numbers:
        expected = json.dumps(found) == json.dumps(wanted) or found == wanted
    matcher = Matcher(criteria)
    assert matcher.matches(record_of(sent)) == expected
    if expected:
        batch = build_batch([(b"k", sent)], timestamp_ms=0)
        assert matcher.may_match(bytes(batch[61:]), 0)


@pytest.mark.parametrize(
    ("sent", "path", "equals", "is_hit"),
    [
        ('{"id": 9007199254740993}', "id", "9007199254740993", True),
        ('{"id": 9007199254740993}', "id", "9007199254740992", False),
        ('{"id": 1.0}', "id", "1", True),
        ('{"id": 1e2}', "id", "100", True),
        ('{"id": "1"}', "id", "1", True),
        ('{"id": 1}', "id", '"1"', False),
        ('{"id": true}', "id", "1", False),
        ('{"id": 1}', "id", "true", False),
        ('{"id": null}', "id", "null", True),
        ('{"id": null}', "id", "", False),
        ('{"id": ""}', "id", "", True),
        ('{"id": 1, "id": 2}', "id", "1", True),
        ('{"a": {"b": [10, {"c": "Berlin"}]}}', "a.b[1].c", "Berlin", True),
        ('{"a": {"b": [10, {"c": "Berlin"}]}}', '$["a"].b[0]', "10", True),
        ('{"\\u0069d": "B\\u0065rlin"}', "id", "Berlin", True),
        ("not json", "id", "1", False),
        ('{"id": NaN}', "id", "NaN", False),
        ('{"id": 1e99999999999999999999}', "id", "1", False),
        ("[" * 100_000, "id", "1", False),
        ('{"id": ' + "9" * 10_000 + "}", "id", "1", False),
    ],
)
def test_json_equality_is_exact(sent: str, path: str, equals: str, is_hit: bool) -> None:
    criteria = Criteria(json_path=path, json_equals=equals).checked()
    assert Matcher(criteria).matches(record_of(sent.encode())) == is_hit


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, b"", b"k1", b"k12"]),
            st.sampled_from([None, b"", b"needle", b"hay needle hay", b"nee"]),
            st.lists(
                st.tuples(st.sampled_from(["h", "hh"]), st.sampled_from([None, b"", b"v"])),
                max_size=2,
            ),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([None, b"needle", b"e"]),
    st.sampled_from([None, b"k1", b""]),
    st.sampled_from([None, b"k"]),
    st.sampled_from([None, b"v", b""]),
    st.sampled_from(["none", "gzip", "zstd"]),
)
def test_a_scan_finds_what_a_look_at_every_record_finds(
    sent: Any, contains: Any, key: Any, key_part: Any, header: Any, compression: str
) -> None:
    criteria = Criteria(
        value_contains=contains,
        key_equals=key,
        key_contains=key_part,
        header_name=None if header is None else "h",
        header_equals=header,
    )
    batch = build_batch(
        [NewRecord(*one) for one in sent], timestamp_ms=5, compression=compression, base_offset=7
    )
    tally = Tally()
    answer = FetchedBatches(0, 0, 0, memoryview(bytes(batch)))
    reached = scan(answer, Matcher(criteria), 3, 7, 1_000, tally, 100)
    expected = [
        7 + index
        for index, (record_key, value, headers) in enumerate(sent)
        if (contains is None or (value is not None and contains in value))
        and (key is None or record_key == key)
        and (key_part is None or (record_key is not None and key_part in record_key))
        and (header is None or ("h", header) in headers)
    ]
    assert [one.offset for one in tally.found] == expected
    assert reached == 7 + len(sent)
    assert tally.records == len(sent)


def test_a_scan_stops_when_enough_was_found_and_goes_on_behind_it() -> None:
    batch = build_batch([(b"k", b"x")] * 10, timestamp_ms=0)
    answer = FetchedBatches(0, 0, 0, memoryview(bytes(batch)))
    matcher = Matcher(Criteria(value_contains=b"x"))
    first, second = Tally(), Tally()
    position = scan(answer, matcher, 0, 0, 10, first, 4)
    assert position == 4
    assert scan(answer, matcher, 0, position, 10, second, 100) == 10
    assert [one.offset for one in first.found + second.found] == list(range(10))


def test_a_damaged_batch_is_counted_and_passed() -> None:
    good = build_batch([(b"k", b"x")], timestamp_ms=0, base_offset=1)
    bad = build_batch([(b"k", b"x")], timestamp_ms=0)
    bad[-1] ^= 0xFF
    tally = Tally()
    answer = FetchedBatches(0, 0, 0, memoryview(bytes(bad + good)))
    scan(answer, Matcher(Criteria(value_contains=b"x")), 0, 0, 2, tally, 10)
    assert tally.unreadable_batches == 1
    assert [one.offset for one in tally.found] == [1]


def test_time_range_is_since_inclusive_until_exclusive() -> None:
    matcher = Matcher(Criteria(value_contains=b"x", since_ms=10, until_ms=20))
    hits = [at_ms for at_ms in (9, 10, 19, 20) if matcher.matches(record_of(b"x", timestamp=at_ms))]
    assert hits == [10, 19]


@pytest.mark.parametrize(
    ("criteria", "says"),
    [
        (Criteria(), "Say what to look for"),
        (Criteria(value_contains=b""), "contains nothing"),
        (Criteria(value_contains=b"x" * 2_000), "At most 1024 bytes"),
        (Criteria(header_name="h"), "name and its value"),
        (Criteria(json_path="a"), "path and the value"),
        (Criteria(json_path="a..", json_equals="1"), "Not a path"),
        (Criteria(json_path="a[", json_equals="1"), "Not a path"),
        (Criteria(json_path='a["x', json_equals="1"), "Not a path"),
        (Criteria(json_path=".".join("a" * 100), json_equals="1"), "Not a path"),
        (Criteria(json_path="a", json_equals="\0"), "no NUL"),
        (Criteria(value_contains=b"x", since_ms=5, until_ms=5), "not after its beginning"),
    ],
)
def test_bad_criteria_say_what_to_correct(criteria: Criteria, says: str) -> None:
    with pytest.raises(BadCriteria, match=says):
        criteria.checked()


@given(st.binary(min_size=1, max_size=20), st.text(max_size=5), st.integers(0, 2**62))
def test_criteria_come_back_from_the_database(needle: bytes, text: str, at_ms: int) -> None:
    criteria = Criteria(
        value_contains=needle,
        header_name="h",
        header_equals=needle,
        json_path="a",
        json_equals=text,
        since_ms=at_ms,
        partitions=(1, 5),
    )
    assert Criteria.from_json(json.loads(json.dumps(criteria.to_json()))) == criteria


@pytest.mark.parametrize(
    "hostile", ["(a+)+$", "(.*a){30}", "^(([a-z])+.)+[A-Z]([a-z])+$", "[" * 900]
)
def test_what_looks_like_a_hostile_pattern_is_a_text_and_takes_no_time(hostile: str) -> None:
    value = b"a" * 100_000 + b"!"
    criteria = Criteria(value_contains=hostile.encode()).checked()
    began = time.process_time()
    matcher = Matcher(criteria)
    assert not matcher.may_match(value, 0)
    assert not matcher.matches(record_of(value))
    with contextlib.suppress(BadCriteria):
        parse_path(hostile)
    assert time.process_time() - began < 1, "seconds of processor time for a text"
