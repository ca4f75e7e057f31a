"""The chain for real, over gloo, with sizes that are wrong. (`scripts/nccl-check --broken` breaks every link.)"""

from dataclasses import replace

import pytest

from bench.gpu.breaks import SIZES_WRONG
from bench.gpu.chain import SETUPS
from bench.gpu.nccl_check import check

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.torch]


def test_a_wrong_size_is_noticed_from_the_job_to_hostd() -> None:
    verdicts = check(replace(SETUPS["gloo"], before_s=3.0), SIZES_WRONG)
    assert {one.link for one in verdicts if not one.passed} >= {"sizes"}
    assert all(one.passed for one in verdicts if one.link in ("plugin", "marks")), verdicts
