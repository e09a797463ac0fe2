"""Large files are cut down before they go; what a file under another name has stays."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.runtime.disk import SystemDisk
from broker.runtime.freeing import STEP_BYTES, WHOLE_BYTES_MAX

LARGE_BYTES = WHOLE_BYTES_MAX + 2 * STEP_BYTES + 1


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SystemDisk]:
    opened = SystemDisk(tmp_path / "data")
    yield opened
    opened.close()


@pytest.mark.parametrize("is_tree", [False, True])
async def test_a_large_file_is_cut_down_before_it_is_removed(
    disk: SystemDisk, is_tree: bool
) -> None:
    (disk.root / "d").mkdir()
    path = disk.root / "d" / "00.log.deleted"
    with path.open("wb") as file:
        file.truncate(LARGE_BYTES)
        if is_tree:
            await disk.remove_tree("d")
        else:
            await disk.unlink_in_steps("d/00.log.deleted")
        assert os.fstat(file.fileno()).st_size == 1, "what the removal itself had to free"
    assert not path.exists()


@pytest.mark.parametrize("is_tree", [False, True])
async def test_a_file_with_another_name_stays_whole_under_that(
    disk: SystemDisk, tmp_path: Path, is_tree: bool
) -> None:
    (disk.root / "d").mkdir()
    backup, target = tmp_path / "backup", tmp_path / "target"
    backup.write_bytes(bytes(LARGE_BYTES))
    target.write_bytes(bytes(LARGE_BYTES))
    (disk.root / "d" / "hard").hardlink_to(backup)
    (disk.root / "d" / "soft").symlink_to(target)
    if is_tree:
        await disk.remove_tree("d")
    else:
        await disk.unlink_in_steps("d/hard")
        await disk.unlink_in_steps("d/soft")
        await disk.unlink_in_steps("d/missing")
        assert os.listdir(disk.root / "d") == []
    assert backup.stat().st_size == target.stat().st_size == LARGE_BYTES


@pytest.mark.parametrize("is_tree", [False, True])
async def test_a_file_that_cannot_be_cut_is_removed_all_the_same(
    disk: SystemDisk, is_tree: bool
) -> None:
    """A program that runs is such a file; others are those of another owner, and any file of a
    full file system that copies on write.
    """
    (disk.root / "d").mkdir()
    path = disk.root / "d" / "program"
    shutil.copy(shutil.which("sleep") or "", path)
    os.truncate(path, LARGE_BYTES)
    with subprocess.Popen([path, "60"]) as running:
        try:
            with pytest.raises(OSError, match="busy"):
                os.truncate(path, 0)
            if is_tree:
                await disk.remove_tree("d")
            else:
                await disk.unlink_in_steps("d/program")
        finally:
            running.kill()
    assert not path.exists()
