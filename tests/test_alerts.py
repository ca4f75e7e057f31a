"""Every alert of deploy/alerts.yml can fire: on what the daemons' instruments export, scraped as Prometheus would."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from paceline.service.instruments import HostInstruments, SwitchInstruments
from tests.promql import Scrape, Series, firing

pytestmark = pytest.mark.slow

ALERTS = Path(__file__).parents[1] / "deploy" / "alerts.yml"
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
STEP_S, STEPS = 30.0, 64  # half an hour, as long as the most patient alert waits
DAY_S = 86_400.0


class Cluster:
    """A host and a switch, scraped every half minute for half an hour; `now_s` is the last scrape."""

    def __init__(self) -> None:
        self.registries = {"paceline-hosts": CollectorRegistry(), "paceline-switches": CollectorRegistry()}
        self.host = HostInstruments(self.registries["paceline-hosts"])
        self.switch = SwitchInstruments(self.registries["paceline-switches"])
        self.host.switch_silent.set(0)
        self.host.mode.labels("enforce").set(1)
        self.host.backend.labels("htb").set(1)
        self.host.backend.labels("observe").set(0)
        self.now_s = STEPS * STEP_S
        for one in (self.host, self.switch):
            one.certificate_expiry.labels("own").set(self.now_s + 90 * DAY_S)
        self.started_s = 1.0
        self.down = False

    def history(self, each: Callable[["Cluster", int], None]) -> list[Scrape]:
        scrapes = []
        for step in range(1, STEPS + 1):
            self.host.decision.observe(0.001)
            self.switch.answer_latency.observe(0.001)
            each(self, step)
            for job, registry in self.registries.items():
                started = f"process_start_time_seconds {self.started_s}\n"
                text = "" if self.down else generate_latest(registry).decode() + started
                scrapes.append(Scrape(step * STEP_S, {"job": job, "instance": f"{job}-0"}, text))
        return scrapes


def slow_answers(it: Cluster, _step: int) -> None:
    for _ in range(3):
        it.switch.answer_latency.observe(0.1)


def stopped_enforcing(it: Cluster, step: int) -> None:
    it.host.backend.labels("htb").set(step < 10)
    it.host.backend.labels("observe").set(step >= 10)


FIRES: dict[str, list[Callable[[Cluster, int], object]]] = {
    "PacelineDaemonDown": [lambda it, step: setattr(it, "down", step > 50)],
    "PacelineFailOpen": [lambda it, step: it.host.fail_opens.inc(step == 60)],
    "PacelineRestarted": [lambda it, step: setattr(it, "started_s", 1.0 + (step > 60))],
    "PacelineMissedSlots": [lambda it, step: it.host.missed_slots.inc(10)],
    "PacelineSwitchSilent": [lambda it, step: it.host.switch_silent.set(step > 50)],
    "PacelineKernelDisagrees": [lambda it, step: it.host.kernel_disagrees.labels("a", "a/ring/h0>h1").set(step % 2)],
    "PacelineForeignQdisc": [lambda it, step: it.host.unpaced_jobs.labels("foreign_qdisc").set(step > 50)],
    "PacelineNotEnforcing": [stopped_enforcing],
    "PacelineReleased": [lambda it, step: it.host.released.set(1), lambda it, step: it.host.released_jobs.set(2)],
    "PacelineUnpacedJobs": [
        lambda it, step: it.host.unpaced_jobs.labels("unknown_peer").set(1),
        lambda it, step: it.host.unpaced_jobs.labels("namespace").set(1),
        lambda it, step: it.host.unpaced_jobs.labels("own_address").set(1),
    ],
    "PacelineSplitJobs": [
        lambda it, step: it.switch.split_jobs.set(2),
        lambda it, step: it.host.unpaced_jobs.labels("split").set(1),
        lambda it, step: it.host.unpaced_jobs.labels("merged").set(1),
    ],
    "PacelineCertificateExpires": [
        lambda it, step: it.host.certificate_expiry.labels("ca").set(it.now_s + 13 * DAY_S),
        lambda it, step: it.switch.certificate_expiry.labels("own").set(it.now_s + 13 * DAY_S),
    ],
    "PacelineStaleParent": [lambda it, step: it.switch.silent_parents.set(1)],
    "PacelineBadPeers": [lambda it, step: it.switch.bad_peers.labels("topology").inc(60)],
    "PacelineSlowSwitch": [slow_answers],
}


def test_every_alert_has_its_case() -> None:
    assert {rule["alert"] for rule in RULES} == FIRES.keys()
    asked = [sum(rule["alert"] == alert for rule in RULES) for alert in FIRES]
    assert all(len(cases) >= rules for cases, rules in zip(FIRES.values(), asked, strict=True)), "a case for each rule"


@pytest.mark.parametrize(("alert", "case"), [(alert, case) for alert, cases in FIRES.items() for case in cases])
def test_every_alert_fires_and_no_other_with_it(alert: str, case: Callable[[Cluster, int], None]) -> None:
    assert firing(RULES, Cluster().history(case), STEP_S) == {alert}


def test_none_fires_where_all_is_well() -> None:
    assert firing(RULES, Cluster().history(lambda it, step: None), STEP_S) == set()


def test_none_fires_for_what_is_over_soon_or_was_decided() -> None:
    def short(it: Cluster, step: int) -> None:
        it.host.switch_silent.set(step == STEPS)
        it.host.unpaced_jobs.labels("unknown_peer").set(step > STEPS - 4)
        it.host.unpaced_jobs.labels("learning").set(5)
        it.host.unpaced_jobs.labels("not_listed").set(5)
        it.host.released.set(step > STEPS - 20)
        stopped_enforcing(it, step - STEPS + 25)  # because of the release

    assert firing(RULES, Cluster().history(short), STEP_S) == set()


def test_the_evaluator_does_as_prometheus() -> None:
    """Values from Prometheus' own documentation of each function, by hand."""

    def text(count: float) -> str:
        return f'a{{x="1"}} {count}\na{{x="2"}} 7\nb{{x="1"}} 1\n'

    series = Series([Scrape(60.0 * step, {"instance": "i"}, text(value)) for step, value in enumerate((1, 4, 2, 5), 1)])
    one, two = (frozenset({("x", x), ("instance", "i")}) for x in "12")
    assert series.at("a", 240.0) == {one: 5.0, two: 7.0}
    assert series.at('a{x="2"} > 6', 240.0) == {two: 7.0} and series.at('a{x=~"1|3"} > 6', 240.0) == {}
    assert series.at('increase(a{x="1"}[5m])', 240.0) == {one: 8.0}, "it fell to 2: it began anew"
    assert series.at('rate(a{x="1"}[2m])', 240.0) == {one: 3.0 / 120} and series.at("changes(a[5m])", 240.0)[one] == 3
    assert series.at("avg_over_time(a[5m])", 240.0) == {one: 3.0, two: 7.0}
    assert series.at("sum by (instance) (a) - time() < 0", 240.0) == {frozenset({("instance", "i")}): -228.0}
    assert series.at("a and on (x) b == 1", 240.0) == {one: 5.0} and series.at("a unless on (x) b", 240.0) == {two: 7.0}
    assert series.at("a + b > 0", 240.0) == {one: 6.0} and series.at("a", 241.0 + 300) == {}
