"""A run without an end must make progress."""

from pathlib import Path

import pytest

from bench.jobs.process_group import ProcessGroup, RunFailed


def test_a_run_without_an_end_in_which_nothing_happens_fails(tmp_path: Path) -> None:
    group = ProcessGroup(None, None, [], tmp_path)  # type: ignore[arg-type] - nothing is forked
    with pytest.raises(RunFailed, match="no job has ended an iteration"):
        group.listen_until(lambda: False, None, progress_timeout_s=0.3)
