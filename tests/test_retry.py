"""Only a test that failed while the machine stood still runs again, once, and the summary says so."""

import pytest

from tests.retry import LONG_STALL_S, MOST_RETRIES, RetryAfterStall

pytestmark = pytest.mark.slow

FAILS_FIRST = """
attempts = []

def test_it(tmp_path):
    attempts.append(tmp_path)
    assert len(attempts) > {times}, f"attempt {{len(attempts)}}"
"""


class AfterAStallOf(RetryAfterStall):
    """On a machine that is said to have stood still for so long."""

    def __init__(self, stalled_s: float) -> None:
        super().__init__()
        self._stalled_s = stalled_s

    def _longest_stall_s(self, since_s: float) -> float:
        return self._stalled_s


@pytest.mark.parametrize(
    ("times", "stalled_s", "passed"), [(1, LONG_STALL_S, 1), (1, LONG_STALL_S / 2, 0), (2, LONG_STALL_S, 0)]
)
def test_once_and_only_if_the_machine_stood_still(
    pytester: pytest.Pytester, times: int, stalled_s: float, passed: int
) -> None:
    pytester.makepyfile(FAILS_FIRST.format(times=times))
    result = pytester.runpytest_inprocess("-p", "no:asyncio", plugins=[AfterAStallOf(stalled_s)])
    result.assert_outcomes(passed=passed, failed=1 - passed)
    reported = "test_it: the machine stood still for 50 ms" in result.stdout.str()
    assert reported == (stalled_s >= LONG_STALL_S)
    assert not reported or "AssertionError: attempt 1" in result.stdout.str()


def test_a_few_and_no_more(pytester: pytest.Pytester) -> None:
    many = MOST_RETRIES + 2
    each_fails_first = "import pytest\nattempts = set()\n"
    each_fails_first += f"@pytest.mark.parametrize('number', range({many}))\ndef test_it(number):\n"
    each_fails_first += "    assert number in attempts or attempts.add(number)"
    pytester.makepyfile(each_fails_first)
    result = pytester.runpytest_inprocess("-p", "no:asyncio", plugins=[AfterAStallOf(LONG_STALL_S)])
    result.assert_outcomes(passed=MOST_RETRIES, failed=many - MOST_RETRIES)
