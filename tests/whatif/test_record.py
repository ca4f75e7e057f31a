"""What a host has watched, from JSON; anything else is one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.flowcore.model.fields import InputError
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.plain_topology import from_plain, plain
from paceline.flowcore.model.topology import clos, tree
from paceline.whatif.record import parse_record, read_record
from tests.whatif.watched import flow, job, record

GOOD = record("h0", job("a", flow("h0", "h1", 1e6), iteration_ms=100, computing_ms=40))


def test_a_record_survives_a_file(tmp_path: Path) -> None:
    path = tmp_path / "h0.json"
    path.write_text(json.dumps(GOOD))
    found = read_record(path)
    assert found.host == "h0" and found.topology.hosts == ("h0", "h1", "h2")
    [watched] = found.jobs
    assert watched.sizes == {FlowId("a", "h0", "h1", Role.RING): 1e6}
    assert watched.times is not None and watched.times.computing_ns == 40e6


@pytest.mark.parametrize("topology", [tree(2, 3, 2, [1.0, 2.0, 4.0]), clos(2, 3, 2, [1.0, 2.0])])
def test_a_topology_survives_json(topology: Any) -> None:
    again = from_plain(json.loads(json.dumps(plain(topology))))
    assert again == topology and again.fingerprint == topology.fingerprint


def wrong(**changed: Any) -> Any:
    return {**GOOD, **changed}


@pytest.mark.parametrize(
    "found",
    [
        [], 7, None, "text", {}, wrong(version=2), wrong(jobs=[{}]), wrong(jobs=7), wrong(topology={}),
        wrong(host="h9"),
        wrong(jobs=[job("a", flow("h0", "h9", 1.0), iteration_ms=1, computing_ms=1)]),
        wrong(jobs=[job("a", flow("h0", "h1", -1.0), iteration_ms=1, computing_ms=1)]),
        wrong(jobs=[job("a", flow("h0", "h1", float("nan")), iteration_ms=1, computing_ms=1)]),
        wrong(jobs=[job("a", flow("h0", "h1", 1.0, "what"), iteration_ms=1, computing_ms=1)]),
        wrong(jobs=[job("a", flow("h0", "h1", 1.0), iteration_ms=float("inf"), computing_ms=1)]),
    ],
)  # fmt: skip
def test_what_is_no_record_is_one_line(found: Any) -> None:
    with pytest.raises(InputError) as refused:
        parse_record(found, "h0.json")
    assert str(refused.value).startswith("h0.json: the record: found ") and "\n" not in str(refused.value)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_one_line(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "h0.json").write_bytes(text)
    with pytest.raises(InputError, match="the record"):
        read_record(tmp_path / "h0.json")
