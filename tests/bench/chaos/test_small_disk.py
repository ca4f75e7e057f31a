"""A disk of the run's own: full when asked, and gone with its block."""

from pathlib import Path

import pytest

from bench.chaos.small_disk import DISK_BYTES, empty, fill, own_mounts, small_disk

pytestmark = pytest.mark.root

MOUNTS = Path("/proc/thread-self/ns/mnt")


def test_full_then_empty_then_gone(tmp_path: Path) -> None:
    place, before = tmp_path / "disk", Path.cwd()
    mounts = MOUNTS.readlink()
    with own_mounts() as why_not:
        assert why_not == ""
        with small_disk(place):
            fill(place)
            with pytest.raises(OSError, match="No space left"):
                (place / "more").write_bytes(bytes(4096))
            empty(place)
            (place / "more").write_bytes(bytes(DISK_BYTES // 2))
        assert list(place.iterdir()) == []
    assert Path.cwd() == before and MOUNTS.readlink() == mounts
