"""The picture of a host: three bars a flow, jobs that are only watched, and never more than 80 columns."""

from typing import Any

import pytest

from paceline.commands.view.host_view import bar, host_view, lines, short


def status(*jobs: dict[str, Any], mode: str = "enforce") -> dict[str, Any]:
    switch = {"deciding_alone": True, "why": "no switch is configured", "silent_switches": [], "round_trip_ms": 0.0}
    about = {"host": "h0", "mode": mode, "backend": "htb", "policy": "paceline", "switch": switch}
    counted = {"slot": 7, "missed_slots": 0, "fail_opens": 0, "troubles": {}, "invisible": {}}
    return {**about, **counted, "jobs": list(jobs)}


def job(name: str, *flows: dict[str, Any], controlled: bool = True) -> dict[str, Any]:
    slowdown = 1.12 if controlled else None
    facts = {"iteration": 41, "iteration_ms": 820.4, "phase": "sending", "controlled": controlled, "slowdown": slowdown}
    return {"name": name, **facts, "flows": list(flows)}


def flow(name: str, requested: float | None, kernel: float | None, achieved: float, **more: Any) -> dict[str, Any]:
    rates = {"requested_bps": requested, "kernel_bps": kernel, "achieved_bps": achieved}
    return {"flow": name, "live": True, "size_bytes": 25_000_000, "sent_bytes": 8_500_000, **rates, **more}


def test_a_flow_has_a_bar_for_what_was_requested_for_the_kernel_and_for_what_it_had() -> None:
    shown = list(lines(status(job("bert", flow("bert/ring/h0>h1", 8e8, 6e8, 2e8)))))
    [line] = [line for line in shown if "ring/h0>h1" in line]
    assert line.split() == ["ring/h0>h1", "25M", "34%", bar(1.0), "800M", bar(0.75), "600M", bar(0.25), "200M"]
    assert "bert  iteration 41 of 820 ms, sending, 1.12 times as slow as alone" in shown
    [head] = [line for line in shown if "requested" in line]
    for title, drawn in zip(("requested", "kernel", "achieved"), (bar(1.0), bar(0.75), bar(0.25)), strict=True):
        assert head.index(title) == line.index(drawn), "each title stands above its bars"


def test_a_job_that_is_only_watched_is_free_and_says_so() -> None:
    theirs = job("gpt", flow("gpt/ring/h0>h1", None, None, 4e8), controlled=False)
    shown = list(lines(status(theirs, mode="observe")))
    assert any(line.startswith("gpt ") and line.endswith("watched, not paced") for line in shown)
    [line] = [line for line in shown if "ring/h0>h1" in line]
    assert line.split()[3:] == ["free", "free", bar(1.0), "400M"]
    assert "deciding nothing" in shown[0]


def test_a_flow_that_is_still_learned_has_no_size() -> None:
    young = flow("a/ring/h0>h1", None, None, 0.0, size_bytes=None, sent_bytes=0, live=False)
    [line] = [line for line in lines(status(job("a", young, controlled=False))) if "ring" in line]
    assert line.split() == ["ring/h0>h1", "–", "free", "free", bar(0.0), "0"]


@pytest.mark.parametrize("columns", [48, 60, 72, 80, 132])
def test_a_row_is_one_line_on_every_screen(columns: int) -> None:
    mine = job("a", flow("a/ring/h0>h1", 8e8, 6e8, 2e8))
    mine["not_paced"] = [{"reason": "unknown_peer", "why": "it sends to 10.0.0.9, of no host in [addresses]"}]
    shown = list(lines({**status(mine), "troubles": {"eth0: " + 10 * "a long reason ": 3}}, columns))
    assert all(len(line) <= columns for line in shown)
    [row] = [line for line in shown if "ring/h0>h1" in line]
    assert row.split()[1:3] == ["25M", "34%"] and [word for word in row.split() if word.endswith("0M")] == [
        "800M", "600M", "200M",
    ]  # fmt: skip
    assert "of no host in [addresses]" in " ".join(" ".join(shown).split())


def test_a_trouble_says_how_long_ago_it_was() -> None:
    found = {**status(), "troubles": {"eth0: busy": 3}, "trouble_times": {"eth0: busy": {"age_s": 12.3}}}
    assert list(lines(found))[-1] == "3 × eth0: busy, last 12 s ago"
    found["trouble_times"]["eth0: busy"]["age_s"] = 600.0
    assert list(lines(found))[-1] == "3 × eth0: busy, last 10 min ago"


@pytest.mark.parametrize("columns", [80, 132])
def test_names_of_any_length_and_rates_of_any_size_fit(columns: int) -> None:
    long = flow("job/ring/gpu-node-0001.rack-17>gpu-node-0002.rack-17", 3.99e11, 999.7e9, 1.0, size_bytes=7 * 10**14)
    for line in lines(status(job("job", long)), columns):
        assert len(line) <= columns
    [line] = [line for line in lines(status(job("job", long)), columns) if "rack-17 " in line]
    assert "gpu-node-0002.rack-17" in line or columns == 80


def test_whatever_a_job_is_called_no_line_is_longer_than_the_screen() -> None:
    from rich.console import Console

    console = Console(width=80)
    with console.capture() as text:
        console.print(host_view(status(job("[bold]" + 100 * "x"))))
    assert all(len(line) <= 80 for line in text.get().splitlines()) and "[bold]xxx" in text.get()


def test_numbers_and_bars_for_people() -> None:
    numbers = [0, 1.0, 950e3, 1e6, 1.5e6, 999.9e6, 12.5e9, 999.7e9, 4e14]
    assert [short(number) for number in numbers] == ["0", "1", "950k", "1M", "1.5M", "1G", "12.5G", "1T", "400T"]
    assert set(bar(7.0)) == {"█"} and set(bar(-1.0)) == {"·"}
