"""Scenario files: the reading, which flowcore leaves to its drivers."""

from pathlib import Path

from paceline.flowcore.model.scenario import MAX_SCENARIO_BYTES, Scenario, ScenarioError, parse_scenario


def read_scenario(path: Path) -> Scenario:
    """Raises ScenarioError or OSError."""
    with path.open("rb") as file:
        # Never more than this, whatever the size claims to be: it may be a device or a pipe.
        content = file.read(MAX_SCENARIO_BYTES + 1)
    if len(content) > MAX_SCENARIO_BYTES:
        found = f"more than {MAX_SCENARIO_BYTES} bytes"
        raise ScenarioError(str(path), "the file", found, "a scenario of at most that size")
    return parse_scenario(content.decode(errors="replace"), str(path))
