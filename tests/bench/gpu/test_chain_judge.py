"""What is said of a run of the chain, sound or broken. (Made-up runs; test_chain.py has a real one.)"""

from dataclasses import replace
from typing import Any

import pytest

from bench.gpu.chain_judge import Counted, Observations, judge

S = 1_000_000_000
SIZE = 1 << 20


def status(**flow: Any) -> dict[str, Any]:
    common = {"size_bytes": SIZE * 1.01, "sockets": 1, "live": True, "kernel_bps": 1e9}
    jobs = [
        {"name": name, "controlled": True, "flows": [common | {"kernel_bps": rate_bps} | flow]}
        for name, rate_bps in (("a", 9e8), ("b", 1e7))
    ]
    return {"jobs": jobs, "switch": {"connected": True, "deciding_alone": False}}


def sound(**changed: Any) -> Observations:
    counted = {
        (job, rank): Counted(dict.fromkeys(range(3, 20), SIZE), dict.fromkeys(range(20), 0.25), 19, True)
        for job in "ab"
        for rank in (0, 1)
    }
    ended = [round(0.5 * S * number) for number in range(1, 20)]
    observations = Observations(
        "nccl", ("a", "b"), ("h0", "h1"), SIZE, 0.25, 0.49, counted, {"h0": [status()], "h1": [status()]},
        {"a": ended, "b": ended}, dict.fromkeys(counted, 20), 6 * S, 2.0,
    )  # fmt: skip
    return replace(observations, **changed)


def broken_links(observations: Observations) -> set[str]:
    return {verdict.link for verdict in judge(observations) if not verdict.passed}


def test_a_sound_chain_passes_and_every_link_is_judged() -> None:
    assert broken_links(sound()) == set()
    links = {verdict.link for verdict in judge(sound())}
    assert links == {"plugin", "sizes", "marks", "hostd", "switchd", "htb", "training", "restart"}


def test_a_silent_plugin_is_noticed() -> None:
    blank = {"jobs": [], "switch": {"connected": True, "deciding_alone": False}}
    seen = sound(counted={}, statuses={"h0": [blank], "h1": [blank]})
    assert broken_links(seen) >= {"plugin", "sizes", "marks", "hostd", "htb"}
    del (one := sound()).counted["b", 1]  # type: ignore[attr-defined]
    assert broken_links(one) == {"plugin"}


def test_marks_that_come_early_are_noticed() -> None:
    counted = {process: replace(one, gaps_s={4: 0.0002, 5: 0.0001}) for process, one in sound().counted.items()}
    assert broken_links(sound(counted=counted)) == {"marks"}


def test_marks_too_many_are_noticed() -> None:
    counted = {process: replace(one, iterations=40) for process, one in sound().counted.items()}
    assert broken_links(sound(counted=counted)) == {"marks"}


@pytest.mark.parametrize("number", [3, 19])
def test_one_wrong_size_is_noticed(number: int) -> None:
    seen = sound()
    seen.counted["a", 0].sizes[number] = SIZE // 2
    assert broken_links(seen) == {"sizes"}
    seen.counted["a", 0].sizes = {1: 5, 2: 5, 3: SIZE}
    assert broken_links(seen) == set()  # the first two carry more


def test_a_hostd_that_sees_nothing_is_noticed() -> None:
    blank = {"jobs": [], "switch": {"connected": True, "deciding_alone": False}}
    assert broken_links(sound(statuses={"h0": [status()], "h1": [blank]})) == {"hostd", "htb"}
    assert broken_links(sound(statuses={"h0": [status(sockets=0)], "h1": [status()]})) == {"hostd"}
    assert broken_links(sound(statuses={"h0": [status(size_bytes=SIZE / 2)], "h1": [status()]})) == {"hostd"}


def test_counters_that_hostd_was_not_given_are_noticed() -> None:
    seen = sound()
    seen.counted["b", 1].registered = False
    assert broken_links(seen) == {"hostd"}


def test_a_switch_that_is_not_there_is_noticed() -> None:
    away = status() | {"switch": {"connected": False, "deciding_alone": True}}
    assert broken_links(sound(statuses={"h0": [status(), away], "h1": [status()]})) == {"switchd"}


def test_a_link_that_is_halved_is_noticed() -> None:
    halved = {host: 5 * [status(kernel_bps=5e8)] for host in ("h0", "h1")}
    assert broken_links(sound(statuses=halved)) == {"htb"}
    assert broken_links(sound(statuses=halved | {"h1": 6 * [status()]})) == set()


def test_a_link_that_a_resting_job_has_is_noticed() -> None:
    def one_sends(sender: str) -> dict[str, Any]:
        now = status()
        for job in now["jobs"]:
            job["flows"][0]["live"] = job["name"] == sender
        return now

    assert broken_links(sound(statuses={host: [one_sends("a")] for host in ("h0", "h1")})) == set()
    assert broken_links(sound(statuses={host: [one_sends("b")] for host in ("h0", "h1")})) == {"htb"}
    nobody = {host: [one_sends("neither")] for host in ("h0", "h1")}
    assert broken_links(sound(statuses=nobody)) == {"htb"}, "what was never seen does not hold"


def test_jobs_that_hinder_each_other_are_noticed() -> None:
    assert broken_links(sound(alone_s=0.4)) == {"training"}


def test_training_that_stands_still_after_a_kill_is_noticed() -> None:
    ended = list(sound().ended["a"])
    assert broken_links(sound(ended={"a": ended[:12], "b": ended})) == {"restart"}
    late = [*ended[:13], *(end + 3 * S for end in ended[13:])]
    assert broken_links(sound(ended={"a": ended, "b": late})) == {"restart"}
    assert broken_links(sound(found_again_s=None)) == {"restart"}


def test_without_a_kill_nothing_is_said_of_it() -> None:
    links = {verdict.link for verdict in judge(sound(killed_ns=None, found_again_s=None, alone_s=None))}
    assert "restart" not in links and "training" not in links
