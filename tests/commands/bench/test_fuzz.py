"""`paceline bench fuzz`."""

import pytest

from bench.fuzz import registry
from paceline.cli import main
from paceline.commands.bench.fuzz import NAMES
from tests.bench.fuzz.test_campaign import Brittle
from tests.commands.output import run_json

pytestmark = pytest.mark.slow


def test_every_target_has_its_name_in_the_command() -> None:
    assert set(NAMES) == set(registry.TARGETS)


def test_fuzz_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, document = run_json(["bench", "fuzz", "control", "--count", "300"], capsys)
    assert (document["name"], document["mutants"], document["seed"], document["failures"]) == ("control", 300, 1, [])
    assert sum(document["outcomes"].values()) == 300 and "commit" in document


def test_a_failure_is_printed_with_its_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.TARGETS, "wire", Brittle)
    assert main(["bench", "fuzz", "wire", "--count", "1000", "--seed", "9"]) == 1
    assert "seed 9, mutant 999: KeyError: " in capsys.readouterr().out
