"""`paceline bench allocate`, and the problems it measures."""

import json

from paceline import cli


def test_bench_allocate_json(capsys, monkeypatch) -> None:
    from bench.micro import allocate

    # Few and once: this test is about the keys.
    measure_allocate, measure_decisions = allocate.measure_allocate, allocate.measure_decisions
    monkeypatch.setattr(allocate, "measure_allocate", lambda: measure_allocate(flows=20))
    monkeypatch.setattr(allocate, "measure_decisions", lambda: measure_decisions(decisions=20))
    assert cli.main(["bench", "allocate", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["us_per_flow"]) == ["10", "100"]
    assert document["p90_decision_us"] > 0


def test_benchmark_decisions_fit() -> None:
    import random

    from bench.micro.allocate import DECISION_FLOWS, _random_decision, decide

    rng = random.Random(1)
    for _ in range(50):
        flows = _random_decision(rng)
        plans = decide(flows)
        assert len(plans) == DECISION_FLOWS
        assert all(plan.complete for plan in plans)
