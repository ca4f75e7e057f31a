"""Fig. 13: what control costs while jobs train: bytes on the control network (a) and CPU of the daemons (b)."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

from bench.experiments.experiment import Check, Experiment, Options, Result, as_json
from bench.experiments.paper.speed import one_of_each
from bench.jobs.cases import Case
from bench.jobs.control import Control, DaemonCpu, RunningControl
from bench.jobs.run import Conditions
from bench.report.parts import Lines, Part, Table
from bench.testbed.namespace import Namespace
from bench.testbed.network import CONTROL_IFNAME, Testbed
from paceline.flowcore.model.scenario import Scenario
from paceline.sim.run import percentile

PAPER_GBPS = 25.0
PAPER_MBPS, PAPER_CPU_PERCENT = 10.0, 15.0
CONTROLS = ("mlcc", "paceline")
TRAFFIC, CPU = "control traffic, 6 hosts on one switch", "CPU of a host's scheduler"
EVERY_S = 0.06  # a slot


class MeteredControl:
    """A control under which the control traffic at the switch is measured, slot by slot."""

    def __init__(self, control: Control) -> None:
        self.name, self.congestion_control = control.name, control.congestion_control
        self._control = control
        self._mbps: list[float] = []

    @contextmanager
    def running(self, testbed: Testbed, scenario: Scenario, directory: Path) -> Iterator[RunningControl]:
        switch = testbed.nodes[scenario.topology.switches[0]]
        with self._control.running(testbed, scenario, directory) as running:
            meter = TrafficMeter(running, switch, self._mbps)
            try:
                yield meter
            finally:
                meter.end()

    def observations(self) -> list[float]:
        return self._mbps


class TrafficMeter:
    """A running control, and a thread that counts bytes while the jobs run: from `begin` to `cpu`."""

    def __init__(self, running: RunningControl, switch: Namespace, mbps: list[float]) -> None:
        self._running, self._switch, self._mbps = running, switch, mbps
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)

    def begin(self) -> None:
        self._mbps.clear()
        self._thread.start()
        self._running.begin()

    def cpu(self) -> DaemonCpu:
        self.end()
        return self._running.cpu()

    def fail_opens(self) -> int:
        return self._running.fail_opens()

    def end(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _count(self) -> None:
        with self._switch.enter():
            before_bytes, before_s = _passed_bytes(), time.monotonic()
            while not self._stop.wait(EVERY_S):
                now_bytes, now_s = _passed_bytes(), time.monotonic()
                self._mbps.append(round(8e-6 * (now_bytes - before_bytes) / (now_s - before_s), 4))
                before_bytes, before_s = now_bytes, now_s


def _passed_bytes() -> int:
    """In and out, of the port on the control network in the calling thread's namespace."""
    for line in Path("/proc/thread-self/net/dev").read_text(encoding="ascii").splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == CONTROL_IFNAME:
            fields = counters.split()
            return int(fields[0]) + int(fields[8])
    raise OSError(f"no interface {CONTROL_IFNAME}")


def run(options: Options) -> Result:
    conditions = Conditions("synthetic" if options.quick else "auto", options.seed)
    scenario = one_of_each(PAPER_GBPS, options)
    case = Case("overhead", scenario, CONTROLS, conditions, alone=False, observer=MeteredControl)
    runs = options.make([case])["overhead"]
    rows, checks = [], []
    for control, own in runs.together.items():
        every = [mbps for observed in runs.observations[control] for mbps in observed]
        host, switch = (fmean(getattr(one.cpu, kind) for one in own) for kind in ("host_percent", "switch_percent"))
        rows.append(
            {
                "control": control,
                "mean_mbps": fmean(every),
                "p99_mbps": percentile(every, 99),
                "host_cpu_percent": host,
                "switch_cpu_percent": switch,
                "mbps": runs.observations[control][0],
            }
        )
        checks += [
            Check.at_most(f"{control}: under the paper's 10 Mbit/s of control traffic for 6 hosts",
                          fmean(every), PAPER_MBPS, "{:.2f} Mbit/s"),
            Check.at_most(f"{control}: hostd takes at most the paper's 15 % of a core",
                          host, PAPER_CPU_PERCENT, "{:.1f} %"),
        ]  # fmt: skip
    return {"rows": rows, "checks": as_json(checks)}


def here(result: Result) -> dict[str, str]:
    rows = result["rows"]
    return {
        TRAFFIC: ", ".join(f"{row['control']} {row['mean_mbps']:.2f} Mbit/s" for row in rows),
        CPU: ", ".join(f"{row['control']} {row['host_cpu_percent']:.1f} %" for row in rows),
    }


def present(result: Result) -> list[Part]:
    curves = {
        row["control"]: [(number * EVERY_S, mbps) for number, mbps in enumerate(row["mbps"])] for row in result["rows"]
    }
    keys = ("mean_mbps", "p99_mbps", "host_cpu_percent", "switch_cpu_percent")
    rows = [(row["control"], *(f"{row[key]:.2f}" for key in keys)) for row in result["rows"]]
    columns = ("", "Mbit/s, mean", "Mbit/s, p99", "hostd, % of a core", "switchd, % of a core")
    return [Lines("Control traffic at the switch", "s", "Mbit/s", curves), Table("Cost", columns, rows)]


EXPERIMENT = Experiment(
    name="overhead",
    figure="Fig. 13",
    shows="how much of the network and of a core control takes",
    run=run,
    present=present,
    here=here,
    paper={
        TRAFFIC: "below 10 Mbit/s most of the time",
        CPU: "15 % of a core (DeepCC 35 %, Aurora 42 %)",
    },
    differs="All daemons and all jobs share this machine's cores.",
    controls=CONTROLS,
)
