"""Which jobs look like parts of one, and which do not."""

import logging

import pytest

from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.topology import star
from switchd.split_jobs import MOST_COMPARED, split_jobs
from tests.switchd.fabric import Fabric, claim, flow

HOSTS = ("h0", "h1", "h2", "h3")


def flows(*texts: str) -> list[FlowId]:
    """Each "job h0>h1"."""
    parts = [text.replace(">", " ").split() for text in texts]
    return [FlowId(job, source, target, Role.RING) for job, source, target in parts]


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        (flows("a h0>h1", "b h1>h0"), [("a", "b")]),
        (flows("a h0>h1", "b h1>h2", "c h2>h0"), [("a", "b"), ("a", "c"), ("b", "c")]),
        (flows("a h0>h1", "a h1>h0"), []),
        (flows("a h0>h1", "a h1>h0", "b h0>h1", "b h1>h0"), []),
        (flows("a h0>h1"), []),  # it is only watched on h1
        (flows("a h0>h1", "b h1>h2"), [("a", "b")]),
        (flows("a h0>h1", "b h2>h3"), []),
        (flows("7/a h0>h1", "7/b h1>h0"), [("7/a", "7/b")]),
        (flows("7/a h0>h1", "8/a h1>h0"), []),  # of two users, and each is only watched at the other end
        (flows("7/a h0>h1", "7/a h1>h0", "8/a h0>h1", "8/a h1>h0"), []),
        (flows("a h0>h9", "b h9>h0"), []),  # what h9 sends, another switch hears
        (flows("a h0>h1", "a h1>h0", "b h1>h0"), []),  # h0 sends for a, and for b it may only watch
    ],
)
def test_which_names_are_one_job(heard: list[FlowId], expected: list[tuple[str, str]]) -> None:
    assert split_jobs(heard, HOSTS) == expected
    assert split_jobs(heard, ()) == []


async def test_a_switch_counts_them_and_says_which(fabric, caplog: pytest.LogCaptureFixture) -> None:
    topology = star(2, 1.0)
    net: Fabric = await fabric(topology)
    switch = net.switch("sw")
    for job, source, target in (("train-17", "h0", "h1"), ("train-18", "h1", "h0")):
        host = await net.joined(source)
        await host.ask(claim(topology, flow(job, source, target), 1e8))
    assert switch.registry.get_sample_value("paceline_switch_split_jobs") == 2
    with caplog.at_level(logging.WARNING):
        switch.warn_of_split_jobs()
        switch.warn_of_split_jobs()
    assert caplog.messages == ["train-17 and train-18 look like one job under two names: give both one --job name"]


def test_hosts_with_hundreds_of_names_are_compared_up_to_a_number() -> None:
    names = [f"{side}{number} {way}" for number in range(400) for side, way in (("a", "h0>h1"), ("b", "h1>h0"))]
    assert 0 < len(split_jobs(flows(*names), HOSTS)) <= MOST_COMPARED
