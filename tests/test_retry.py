"""What is made again: what failed while the machine stood still, once, and never in silence."""

import pytest

from tests.retry import LONG_STALL_S, MOST_TRIES, SecondTries

FAILS_FIRST = """
tries = []

def test_it(tmp_path):
    tries.append(tmp_path)
    assert len(tries) > {times}, f"try {{len(tries)}}"
"""


class OnAMachineThatStands(SecondTries):
    def __init__(self, still_s: float) -> None:
        super().__init__()
        self._still_s = still_s

    def _longest_stall_s(self, since_s: float) -> float:
        return self._still_s


@pytest.mark.parametrize(
    ("times", "still_s", "passed"), [(1, LONG_STALL_S, 1), (1, LONG_STALL_S / 2, 0), (2, LONG_STALL_S, 0)]
)
def test_once_and_only_if_the_machine_stood_still(
    pytester: pytest.Pytester, times: int, still_s: float, passed: int
) -> None:
    pytester.makepyfile(FAILS_FIRST.format(times=times))
    result = pytester.runpytest_inprocess("-p", "no:asyncio", plugins=[OnAMachineThatStands(still_s)])
    result.assert_outcomes(passed=passed, failed=1 - passed)
    said_first = "test_it: the machine stood still for 50 ms" in result.stdout.str()
    assert said_first == (still_s >= LONG_STALL_S)
    assert not said_first or "AssertionError: try 1" in result.stdout.str()


def test_a_few_and_no_more(pytester: pytest.Pytester) -> None:
    many = MOST_TRIES + 2
    each_fails_first = "import pytest\ntries = set()\n"
    each_fails_first += f"@pytest.mark.parametrize('number', range({many}))\ndef test_it(number):\n"
    each_fails_first += "    assert number in tries or tries.add(number)"
    pytester.makepyfile(each_fails_first)
    result = pytester.runpytest_inprocess("-p", "no:asyncio", plugins=[OnAMachineThatStands(LONG_STALL_S)])
    result.assert_outcomes(passed=MOST_TRIES, failed=many - MOST_TRIES)
