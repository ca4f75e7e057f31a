import json
from collections.abc import Iterable
from math import inf
from pathlib import Path

import pytest

from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.messages.events import (
    Effect,
    HostEvent,
    IterationEnded,
    JobJoined,
    Limit,
    Progress,
    SwitchEvent,
    Tick,
)
from paceline.flowcore.messages.journal import Agent, Entry, JournalError, decode, encode, replay
from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role
from paceline.flowcore.model.scenario import Scenario, parse_scenario
from paceline.flowcore.policy import POLICIES
from paceline.flowcore.switch.agent import SwitchAgent
from paceline.sim.reference.engine import Simulation

pytestmark = pytest.mark.slow

# A tree, so that switches talk to each other; both patterns, so that every kind of message is in the journal.
SCENARIO = """
version = 1
name = "journal"
duration_s = 3.0
topology = { kind = "tree", servers_per_tor = 2, tors_per_edge = 2, edges = 1, link_gbps = [1.0, 1.0, 1.0] }

[[job]]
name = "ring"
pattern = "allreduce"
workers = ["h0", "h2"]
model_mb = 25.0
compute_s = 0.2
jitter = 0.03

[[job]]
name = "ps"
pattern = "ps"
workers = ["h0", "h3"]
servers = ["h1"]
model_mb = 10.0
compute_s = 0.3
iterations = 3
"""

FLOW = FlowId("a", "h0", "h1", Role.RING)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return parse_scenario(SCENARIO, "journal.toml")


def record(scenario: Scenario, policy: str) -> list[str]:
    lines: list[str] = []

    def sink(now_ns: int, actor: str, event: HostEvent | SwitchEvent, effects: Iterable[Effect]) -> None:
        lines.append(encode(Entry(now_ns, actor, event, tuple(effects))))

    Simulation(scenario, policy, seed=1, journal=sink).run()
    return lines


def fresh_agents(scenario: Scenario, policy: str) -> dict[str, Agent]:
    topology, clock, chosen = scenario.topology, scenario.slots.clock(), POLICIES[policy]()
    agents: dict[str, Agent] = {}
    for name in topology.hosts:
        agents[name] = HostAgent(name, topology, clock, chosen, topology.switch_of[name])
    for name in topology.switches:
        agents[name] = SwitchAgent(name, domains(topology)[name], clock, chosen)
    return agents


@pytest.mark.parametrize("policy", ["paceline", "mlcc", "srpt", "fair"])
def test_fresh_agents_repeat_the_journal(scenario: Scenario, policy: str) -> None:
    lines = record(scenario, policy)
    assert len(lines) > 50
    assert list(replay(lines, fresh_agents(scenario, policy))) == []


def test_every_line_decodes_to_what_was_encoded(scenario: Scenario) -> None:
    for line in record(scenario, "paceline"):
        assert encode(decode(line)) == line


def test_a_changed_effect_is_found(scenario: Scenario) -> None:
    lines = record(scenario, "paceline")
    number = next(index for index, line in enumerate(lines) if '"Limit"' in line)
    entry = json.loads(lines[number])
    effect = next(effect for effect in entry["effects"] if effect["type"] == "Limit")
    effect["rate_bps"] = 12345.0
    lines[number] = json.dumps(entry)
    mismatches = list(replay(lines, fresh_agents(scenario, "paceline")))
    assert [mismatch.line for mismatch in mismatches] == [number + 1]


def test_a_missing_line_is_found(scenario: Scenario) -> None:
    lines = record(scenario, "paceline")
    number = next(index for index, line in enumerate(lines) if '"FlowReady"' in line)
    del lines[number]
    assert any(replay(lines, fresh_agents(scenario, "paceline")))


@pytest.mark.parametrize(
    "event",
    [
        Tick(),
        IterationEnded("a job\nwith a line break"),
        Progress(((FLOW, 0.1 + 0.2), (FLOW, 1e300))),
        JobJoined("a", (FlowSpec(FLOW, 1.0, (), inf),), ((FLOW, (FLOW,)), (FLOW, ()))),
    ],
)
def test_round_trip_keeps_types_and_digits(event: HostEvent) -> None:
    entry = Entry(2**62 + 1, "h0", event, (Limit(FLOW, 1e9, inf),))
    line = encode(entry)
    assert "\n" not in line
    back = decode(line)
    assert back == entry
    assert isinstance(back.effects[0], Limit)
    assert isinstance(back.effects[0].flow, FlowId)
    assert isinstance(back.effects[0].flow.role, Role)


GOOD = encode(Entry(0, "h0", Tick(), ()))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "null",
        "not JSON",
        "[" * 100_000,
        GOOD.replace("Tick", "Tock"),
        GOOD.replace("now_ns", "now_s"),
        GOOD.replace('"now_ns":0', '"now_ns":0.5'),
        GOOD.replace('"effects":[]', '"effects":{}'),
        GOOD.replace('"effects":[]', '"effects":[{"type":"Tick"}]'),
        GOOD.replace('"effects":[]', '"effects":[7]'),
        GOOD.replace('"h0"', "null"),
    ],
)
def test_a_damaged_line_is_named(line: str) -> None:
    with pytest.raises(JournalError, match=r"^line 2: no journal entry"):
        list(replay([GOOD, line], {"h0": Quiet()}))


def test_an_unknown_actor_is_named() -> None:
    with pytest.raises(JournalError, match=r"^line 1: no agent 'h0'"):
        list(replay([GOOD], {}))


class Quiet:
    def handle(self, event: object, now_ns: int) -> list[Effect]:
        return []


@pytest.mark.slow
def test_the_command_writes_a_journal_that_replays(tmp_path: Path, scenario: Scenario) -> None:
    from paceline.cli import main

    source, journal = tmp_path / "s.toml", tmp_path / "journal.jsonl"
    source.write_text(SCENARIO)
    arguments = ["sim", "run", str(source), "--policy", "paceline", "--seed", "1", "--journal", str(journal)]
    assert main(arguments) == 0
    lines = journal.read_text().splitlines()
    assert lines == record(scenario, "paceline")
    assert list(replay(lines, fresh_agents(scenario, "paceline"))) == []
