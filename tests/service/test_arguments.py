"""A wrong command line of a daemon is one line, not a page of usage."""

import pytest

from hostd.__main__ import main as hostd
from switchd.__main__ import main as switchd


@pytest.mark.parametrize("argv", [["--config", "x", "--log-level", "LOUD"], ["--conf", "x"], []])
@pytest.mark.parametrize("main", [hostd, switchd], ids=["hostd", "switchd"])
def test_a_wrong_argument_is_one_line(main, argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    out, err = capsys.readouterr()
    assert ended.value.code == 2 and out == ""
    assert err.count("\n") == 1 and err.endswith("--help)\n")
