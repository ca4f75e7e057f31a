"""`paceline sim compare` and `sweep` of files that are no results of a sweep: one line, and the file stays as it is."""

from pathlib import Path

import pytest

from paceline.cli import main
from tests.commands.output import one_line

ROOT = Path(__file__).parents[3]
NOT_TEXT = b"\x7fELF\xb7\xff\n"
OTHER_JSON = [b'{"run": {}, "mean_jct_s": 3.0}\n', b'{"run": {"trace": {}}, "mean_jct_s": 3, "placement": "x"}\n']


@pytest.mark.parametrize("content", [NOT_TEXT, *OTHER_JSON])
@pytest.mark.parametrize("by", ["policy", "placement", "matrix"])
def test_a_file_of_something_else_is_one_line(
    content: bytes, by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(content)
    assert main(["sim", "compare", str(path), "--by", by]) == 2
    assert f"{path}: found something else, expected the results of a sweep" in one_line(capsys)


@pytest.mark.parametrize("content", [b"", b"1\n", b"null\n", b"{}\n", b"text\n", b'{"run": 1, "mean_jct_s": 2}'])
def test_a_file_without_a_finished_run_is_one_line(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(content)
    assert main(["sim", "compare", str(path)]) == 2
    assert "found no finished run" in one_line(capsys)


def test_a_sweep_does_not_append_to_a_file_of_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(NOT_TEXT)
    assert main(["sim", "sweep", str(ROOT / "workloads/mlcc/sweep.toml"), "--results", str(path)]) == 2
    assert "expected the results of a sweep" in one_line(capsys)
    assert path.read_bytes() == NOT_TEXT
