import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.model.scenario import (
    MAX_HOSTS,
    MAX_SCENARIO_BYTES,
    Backend,
    CrossTraffic,
    JobSpec,
    Pattern,
    Scenario,
    ScenarioError,
    SlotsSpec,
    parse_scenario,
)
from paceline.flowcore.model.slots import SlotClock

SHIPPED = sorted((Path(__file__).parents[3] / "scenarios").glob("*.toml"))

VALID: dict[str, Any] = {
    "version": 1,
    "name": "a-and-b",
    "seed": 7,
    "duration_s": 60.0,
    "slots": {"length_ms": 30, "horizon": 20},
    "topology": {"kind": "star", "hosts": 3, "link_gbps": 1.0},
    "job": [
        {
            "name": "a",
            "pattern": "allreduce",
            "workers": ["h0", "h1"],
            "model_mb": 25.0,
            "compute_s": 0.2,
            "iterations": 100,
            "start_s": 1.5,
            "jitter": 0.03,
        },
        {
            "name": "b",
            "pattern": "ps",
            "workers": ["h0", "h1"],
            "servers": ["h2", "h0"],
            "model_mb": 100,
            "compute_s": 0.57,
        },
    ],
    "cross_traffic": [{"from": "h0", "to": "h1", "every_s": 2.0, "lasts_s": [0.2, 2.0], "gbps": 0.3}],
}
TREE = {"kind": "tree", "servers_per_tor": 2, "tors_per_edge": 2, "edges": 2, "link_gbps": [1, 2, 4]}
CLOS = {"kind": "clos", "servers_per_tor": 2, "tors": 2, "spines": 2, "link_gbps": [1.0, 2.0]}

DELETED = object()
Place = tuple[str | int, ...]


def toml(value: object) -> str:
    """TOML for what the tests put into a scenario; JSON strings and numbers are TOML too."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def changed(place: Place, value: object, base: dict[str, Any] = VALID) -> dict[str, Any]:
    """A copy of a scenario with one value set or deleted."""
    tables = copy.deepcopy(base)
    at: Any = tables
    for step in place[:-1]:
        at = at[step]
    if value is DELETED:
        del at[place[-1]]
    else:
        at[place[-1]] = value
    return tables


def parse(tables: dict[str, Any]) -> Scenario:
    return parse_scenario("\n".join(f"{json.dumps(key)} = {toml(item)}" for key, item in tables.items()), "x.toml")


def complaint(tables: dict[str, Any]) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse(tables)
    return str(caught.value)


def test_every_field_of_a_full_scenario() -> None:
    scenario = parse(VALID)
    assert (scenario.name, scenario.seed, scenario.duration_s) == ("a-and-b", 7, 60.0)
    assert scenario.slots == SlotsSpec(30.0, 20)
    assert scenario.topology.hosts == ("h0", "h1", "h2")
    assert scenario.jobs == (
        JobSpec("a", Pattern.ALLREDUCE, ("h0", "h1"), (), 25.0, 0.2, 100, 1.5, 0.03),
        JobSpec("b", Pattern.PS, ("h0", "h1"), ("h2", "h0"), 100.0, 0.57, None, 0.0, 0.0),
    )
    assert scenario.cross_traffic == (CrossTraffic("h0", "h1", 2.0, (0.2, 2.0), 0.3),)


def test_the_weight_of_a_job_is_a_number_or_a_class() -> None:
    def weight(**keys: object) -> float:
        return parse(changed(("job", 0), VALID["job"][0] | keys)).jobs[0].weight

    found = weight(), weight(weight=4), weight(**{"class": "best-effort"}), weight(**{"class": "normal"})
    assert found == (1.0, 4.0, 0.1, 1.0)
    with pytest.raises(ScenarioError, match="no weight beside a class"):
        weight(weight=1.0, **{"class": "best-effort"})


def test_overlap_bursts_and_backend_of_a_job() -> None:
    job = parse(changed(("job", 0), VALID["job"][0] | {"overlap": 0.4, "bursts": 3, "backend": "nccl"})).jobs[0]
    assert (job.overlap, job.bursts, job.backend, job.plain) == (0.4, 3, Backend.NCCL, False)
    assert (job.alone_s(0.05), job.alone_s(0.5)) == pytest.approx((0.2, 0.62))
    other = parse(VALID).jobs[0]
    assert (other.overlap, other.bursts, other.backend, other.plain) == (0.0, 1, Backend.GLOO, True)


def test_defaults() -> None:
    tables = {key: VALID[key] for key in ("version", "name", "topology")} | {"job": VALID["job"][:1]}
    scenario = parse(tables)
    assert (scenario.seed, scenario.duration_s, scenario.cross_traffic) == (1, None, ())
    assert scenario.slots == SlotsSpec(60.0, 10)
    assert parse(tables | {"slots": {"horizon": 3}}).slots == SlotsSpec(60.0, 3)
    assert scenario.slots.clock(epoch_ns=5) == SlotClock(60_000_000, 10, 5)


@pytest.mark.parametrize(
    ("topology", "kind", "hosts"), [(TREE, "tree", 8), (CLOS, "clos", 4), (VALID["topology"], "star", 3)]
)
def test_topology_kinds(topology: dict[str, Any], kind: str, hosts: int) -> None:
    built = parse(changed(("topology",), topology)).topology
    assert (built.kind, len(built.hosts)) == (kind, hosts)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_shipped_scenarios(file: Path) -> None:
    assert file.stat().st_size < MAX_SCENARIO_BYTES
    scenario = parse_scenario(file.read_text(encoding="utf-8"), file.name)
    assert scenario.name == file.stem
    assert len(scenario.jobs) >= 2


def test_the_examples_are_there() -> None:
    assert {"two-jobs.toml", "mixed.toml", "tree.toml", "clos.toml"} <= {file.name for file in SHIPPED}


BAD: list[tuple[Place, object, str, str]] = [
    # place, value put there, key named in the message, phrase of the message
    (("version",), DELETED, "version", "found nothing"),
    (("version",), 2, "version", "found 2, expected 1"),
    (("version",), True, "version", "found true"),
    (("version",), 1.0, "version", "found 1.0"),
    (("name",), DELETED, "name", "found nothing"),
    (("name",), "  ", "name", "printable characters"),
    (("name",), "a\nb", "name", "'a\\nb'"),
    (("seed",), 1.5, "seed", "a whole number"),
    (("seed",), -1, "seed", "found -1"),
    (("sead",), 1, "sead", "expected 'seed'"),
    (("zzz",), 1, "zzz", "expected one of version, name"),
    (("duration_s",), 0, "duration_s", "from 0.001"),
    (("duration_s",), DELETED, "duration_s", "because job[1] has no iterations"),
    (("slots",), 60, "slots", "found 60, expected a table"),
    (("slots", "horizon"), 0, "slots.horizon", "from 1 to 1000"),
    (("slots", "horizon"), 1001, "slots.horizon", "from 1 to 1000"),
    (("slots", "length_ms"), 0, "slots.length_ms", "to 10000"),
    (("slots", "length_ms"), 10_001, "slots.length_ms", "to 10000"),
    (("slots", "lenght_ms"), 60, "slots.lenght_ms", "'length_ms'"),
    (("topology",), DELETED, "topology", "found nothing"),
    (("topology", "kind"), "ring", "topology.kind", '"star" or "tree" or "clos"'),
    (("topology", "kind"), ["star"], "topology.kind", "found a list of 1"),
    (("topology", "hosts"), 0, "topology.hosts", "from 1 to 100000"),
    (("topology", "hosts"), MAX_HOSTS + 1, "topology.hosts", "from 1 to 100000"),
    (("topology", "link_gbps"), 0.0, "topology.link_gbps", "found 0.0"),
    (("topology", "link_gbps"), float("inf"), "topology.link_gbps", "found inf"),
    (("topology", "link_gbps"), float("nan"), "topology.link_gbps", "found nan"),
    (("topology", "link_gbps"), True, "topology.link_gbps", "found true"),
    (("topology", "edges"), 2, "topology.edges", "an unknown key"),
    (("topology",), TREE | {"link_gbps": [1, 2]}, "topology.link_gbps", "a list of 3 rates"),
    (("topology",), TREE | {"link_gbps": [1, 2, -4]}, "topology.link_gbps[2]", "found -4"),
    (("topology",), TREE | {"edges": 99_999}, "topology", "at most 100000 hosts"),
    (("topology",), CLOS | {"tors": 60_000}, "topology", "at most 100000 hosts"),
    (("topology",), CLOS | {"spines": 60_000}, "topology", "at most 100000 cables"),
    (("job",), DELETED, "job", "found nothing"),
    (("job",), [], "job", "at least one job"),
    (("job",), VALID["job"][0], "job", "found a table, expected a list of [[job]] tables"),
    (("job", 1), "b", "job[1]", "a table"),
    (("job", 1, "name"), "a", "job[1].name", "no other job"),
    (("job", 0, "pattern"), "gossip", "job[0].pattern", '"allreduce" or "ps"'),
    (("job", 0, "workers"), "h0", "job[0].workers", "a list of hosts"),
    (("job", 0, "workers"), ["h0"], "job[0].workers", "two or more hosts"),
    (("job", 0, "workers"), ["h0", "h1", "h0"], "job[0].workers[2]", "differ"),
    (("job", 1, "workers"), [], "job[1].workers", "one or more hosts"),
    (
        ("job", 1, "workers", 0),
        "h3",
        "job[1].workers[0]",
        "found 'h3', expected a host of the topology, h0 to h2",
    ),
    (("job", 1, "workers", 0), 0, "job[1].workers[0]", "found 0"),
    (("job", 1, "servers"), DELETED, "job[1].servers", "found nothing"),
    (("job", 1, "servers"), [], "job[1].servers", "one or more hosts for a ps job"),
    (("job", 1, "servers"), ["h2", "h2"], "job[1].servers[1]", "differ"),
    (("job", 1, "servers"), ["sw"], "job[1].servers[0]", "found 'sw'"),
    (("job", 0, "servers"), ["h2"], "job[0].servers", "no servers"),
    (("job", 0, "model_mb"), DELETED, "job[0].model_mb", "found nothing"),
    (("job", 0, "model_mb"), 0, "job[0].model_mb", "above 0"),
    (("job", 0, "model_mb"), -25.0, "job[0].model_mb", "found -25.0"),
    (("job", 0, "model_mb"), "25" * 50, "job[0].model_mb", "…, expected"),
    (("job", 0, "model_mb"), 10**400, "job[0].model_mb", "a huge integer"),
    (("job", 0, "compute_s"), -0.1, "job[0].compute_s", "from 0 to"),
    (("job", 0, "compute_s"), float("nan"), "job[0].compute_s", "found nan"),
    (("job", 0, "iterations"), 0, "job[0].iterations", "from 1 to"),
    (("job", 0, "iterations"), 10.0, "job[0].iterations", "a whole number"),
    (("job", 0, "iterations"), True, "job[0].iterations", "found true"),
    (("job", 0, "itertions"), 10, "job[0].itertions", "'iterations'"),
    (("job", 0, "start_s"), -1, "job[0].start_s", "found -1"),
    (("job", 0, "jitter"), 1.0, "job[0].jitter", "below 1"),
    (("job", 0, "jitter"), -0.1, "job[0].jitter", "from 0"),
    (("job", 0, "overlap"), 0.91, "job[0].overlap", "from 0 to 0.9"),
    (("job", 0, "overlap"), -0.1, "job[0].overlap", "from 0 to 0.9"),
    (("job", 0, "bursts"), 0, "job[0].bursts", "from 1 to 1000"),
    (("job", 0, "weight"), 0.05, "job[0].weight", "from 0.1 to 10"),
    (("job", 0, "weight"), 11, "job[0].weight", "from 0.1 to 10"),
    (("job", 0, "class"), "silver", "job[0].class", "best-effort"),
    (("job", 0, "bursts"), 2.0, "job[0].bursts", "a whole number"),
    (("job", 0, "backend"), "mpi", "job[0].backend", '"gloo" or "nccl"'),
    (("job", 1, "backend"), "nccl", "job[1].backend", '"gloo" for a ps job'),
    (("cross_traffic",), VALID["cross_traffic"][0], "cross_traffic", "[[cross_traffic]] tables"),
    (("cross_traffic", 0, "from"), "h9", "cross_traffic[0].from", "found 'h9'"),
    (("cross_traffic", 0, "to"), "h0", "cross_traffic[0].to", "another host"),
    (("cross_traffic", 0, "every_s"), 0, "cross_traffic[0].every_s", "found 0"),
    (("cross_traffic", 0, "lasts_s"), [2.0, 0.2], "cross_traffic[0].lasts_s", "not 2 before 0.2"),
    (("cross_traffic", 0, "lasts_s"), [2.0], "cross_traffic[0].lasts_s", "a list of 2"),
    (("cross_traffic", 0, "lasts_s"), [0, 1], "cross_traffic[0].lasts_s[0]", "above 0"),
    (("cross_traffic", 0, "gbps"), -1, "cross_traffic[0].gbps", "found -1"),
    (("cross_traffic", 0, "source"), "h0", "cross_traffic[0].source", "an unknown key"),
]


@pytest.mark.parametrize(("place", "value", "key", "phrase"), BAD)
def test_a_wrong_file_gets_one_line_with_file_and_key(place: Place, value: object, key: str, phrase: str) -> None:
    line = complaint(changed(place, value))
    assert line.startswith(f"x.toml: {key}: found ")
    assert ", expected " in line
    assert phrase in line
    assert line.isprintable()


def test_what_is_allowed_on_purpose() -> None:
    parse(changed(("job", 0, "compute_s"), 0))  # all communication
    parse(changed(("job", 0, "servers"), []))
    parse(changed(("job", 1, "workers"), ["h2"]))  # one worker, its server on the same host
    parse(changed(("cross_traffic",), []))
    parse(changed(("slots", "length_ms"), 1.5))


def test_an_iteration_must_take_time() -> None:
    one_host = changed(("job", 1), VALID["job"][1] | {"workers": ["h0"], "servers": ["h0"], "compute_s": 0})
    assert complaint(one_host).startswith("x.toml: job[1].compute_s: found 0, ")
    one_host["job"][1] |= {"compute_s": 1e-9, "bursts": 2}
    assert "expected at least 2e-09 for a job within one host" in complaint(one_host)


def test_another_version_is_named_before_its_unknown_keys() -> None:
    assert "version: found 2" in complaint({"version": 2, "fabric": {}})


@pytest.mark.parametrize(
    "text",
    [
        "version = ",
        "\x00\x01\x7fELF\r\n\x1b[31m",
        "a = " + "[" * 100_000,  # deeper than the parser's stack
        "version = " + "9" * 5000,  # more digits than int() takes
        "a = 1\na = 2",
        "version = 1979-05-27T07:32:00+25:00",
        '"a\\nb" = 1\nversion = 1',
        "version = 0x" + "f" * 5000,  # parsed, but repr() refuses it
        "",
    ],
    ids=["cut", "binary", "deep", "digits", "twice", "date", "key", "hexadecimal", "empty"],
)
def test_garbage_gets_one_line_too(text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "x\n.toml")
    assert str(caught.value).startswith("x\\n.toml: ")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_a_complaint_survives_a_process_boundary() -> None:
    error = ScenarioError("x.toml", "seed", "nothing", "a number")
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "x.toml: seed: found nothing, expected a number"


@given(st.text())
def test_arbitrary_text_is_a_scenario_or_a_one_line_complaint(text: str) -> None:
    try:
        parse_scenario(text, "x.toml")
    except ScenarioError as error:
        assert str(error).isprintable()


def places(value: object, here: Place = ()) -> list[Place]:
    """Every place in nested tables and lists."""
    steps: list[Any] = []
    if isinstance(value, dict):
        steps = list(value.items())
    elif isinstance(value, list):
        steps = list(enumerate(value))
    return [place for step, item in steps for place in ((*here, step), *places(item, (*here, step)))]


values = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["h0", "h1", "h2", "ps", "allreduce", "tree", "clos"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


@given(st.data(), st.sampled_from([VALID["topology"], TREE, CLOS]))
def test_a_mutated_scenario_is_valid_or_a_one_line_complaint(data: st.DataObject, topology: dict[str, Any]) -> None:
    tables = changed(("topology",), topology)
    for _ in range(data.draw(st.integers(min_value=1, max_value=3))):
        if places(tables):
            tables = changed(data.draw(st.sampled_from(places(tables))), data.draw(st.just(DELETED) | values), tables)
    try:
        scenario = parse(tables)
    except ScenarioError as error:
        assert str(error).isprintable()
        return
    # What parsed is valid: every job can be laid on the topology.
    for job in scenario.jobs:
        for source, target in zip(job.workers, (*job.servers, *job.workers), strict=False):
            scenario.topology.path(source, target, job.name)
    assert scenario.slots.clock().length_ns >= 1
