"""Files for operators: listed, printed, copied, and never over a file that differs."""

from pathlib import Path

import pytest

from paceline.cli import main
from paceline.commands.install import shipped
from tests.commands.output import one_line, run_json

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["deploy", "scenarios"])
def test_all_files_are_listed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = run_json([name], capsys)
    there = {str(path.relative_to(ROOT / name)) for path in (ROOT / name).rglob("*") if path.is_file()}
    assert {row["file"] for row in found["files"]} == there
    assert main([name]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(there)


def test_each_file_of_deploy_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    _, found = run_json(["deploy"], capsys)
    assert [row["file"] for row in found["files"] if not row["purpose"] and not row["file"].endswith(".json")] == []


def test_one_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", "hostd.service"]) == 0
    assert capsys.readouterr().out == (ROOT / "deploy/hostd.service").read_text()


def test_they_are_copied_but_over_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # the same again is no harm
        assert main(["scenarios", "--to", str(tmp_path)]) == 0
    assert (tmp_path / "testbed/mix-2.toml").read_bytes() == (ROOT / "scenarios/testbed/mix-2.toml").read_bytes()
    capsys.readouterr()
    (tmp_path / "two-jobs.toml").write_text("mine")
    (tmp_path / "clos.toml").unlink()
    assert main(["scenarios", "--to", str(tmp_path)]) == 2
    assert "two-jobs.toml: is there already" in one_line(capsys)
    assert (tmp_path / "two-jobs.toml").read_text() == "mine" and not (tmp_path / "clos.toml").exists()


def test_an_unknown_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", "../pyproject.toml"]) == 2
    assert "`paceline deploy` lists them" in one_line(capsys)


def test_an_installation_without_them_says_so(monkeypatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr(shipped, "PACKAGE", tmp_path / "paceline")
    assert main(["deploy"]) == 2
    assert "not whole" in one_line(capsys)
