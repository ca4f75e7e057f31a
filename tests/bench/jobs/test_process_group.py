"""The processes of a run, where there is something to wait for and where not."""

from pathlib import Path

import pytest

from bench.jobs.process_group import Crew, RunFailed


def test_a_run_without_an_end_in_which_nothing_happens_fails(tmp_path: Path) -> None:
    crew = Crew(None, None, [], tmp_path)  # type: ignore[arg-type] - nobody to be born
    with pytest.raises(RunFailed, match="no job has ended an iteration"):
        crew.follow(lambda: False, None, patience_s=0.3)
