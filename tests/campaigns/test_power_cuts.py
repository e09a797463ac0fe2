"""Fifty losses of power, from another seed each time: `hermes test --stage power`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.faults.power_cuts import PowerCuts

CUTS = 50


@pytest.mark.apt("e2fsprogs", "mount")
@pytest.mark.timeout(1_200)
def test_no_promise_is_broken_by_fifty_losses_of_power(tmp_path: Path) -> None:
    seed = time.time_ns() % 1_000_000
    verdict = PowerCuts(tmp_path, seed, {"durability": "fsync"}).run(CUTS)
    assert verdict.findings == [], f"seed {seed}"
    assert verdict.counts["cuts"] == CUTS
    assert verdict.counts["records replayed from the journal"] > CUTS, "it was used"
    assert verdict.counts["segments cleaned away"] > CUTS // 5
    assert verdict.counts["cuts during a cleaning"] > CUTS // 10
    assert verdict.counts["cuts during a swap"] > 0
