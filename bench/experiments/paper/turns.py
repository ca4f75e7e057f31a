"""Figs. 1 and 11(a): two all-reduce jobs, VGG19 and ResNet50, whose flows leave the same host. Do they take turns?"""

from statistics import fmean

from bench.experiments.experiment import Experiment, Options, Result
from bench.experiments.paper_jobs import as_ring, cluster, gbps_here, host_names, job, sped_up
from bench.jobs.cases import Case
from bench.jobs.control import Control
from bench.jobs.link_recorder import RecordedControl
from bench.jobs.report import document
from bench.jobs.run import Conditions
from bench.report.parts import Layers, Part, Table

PAPER_GBPS = 25.0
DURATION_S = 15.0
SHOWN_S = 6.0
TWO_JOBS = "two jobs on one host"


class JobRates(RecordedControl):
    """Records what leaves the first host, job by job, as numbers for JSON."""

    def __init__(self, control: Control, others: bool = False) -> None:
        super().__init__(control, host_names()[0], others)

    def observations(self) -> Result:
        shown = [at for at, time_ns in enumerate(self.recording.times_ns) if time_ns < SHOWN_S * 1e9]
        names = sorted({flow.job for rates in self.recording.rates_bps for flow in rates})
        mbps = {
            name: [
                round(sum(rate for flow, rate in self.recording.rates_bps[at].items() if flow.job == name) / 1e6, 1)
                for at in shown
            ]
            for name in names
        }
        return {"times_s": [round(self.recording.times_ns[at] / 1e9, 3) for at in shown], "mbps": mbps}


def run(options: Options) -> Result:
    jobs = [as_ring(job(model, model, host_names()[:2])) for model in ("VGG19", "ResNet50")]
    scenario = cluster("turns", PAPER_GBPS, jobs, hosts=2, duration_s=DURATION_S)
    scenario = sped_up(scenario, 3.0) if options.quick else scenario
    conditions = Conditions("synthetic" if options.quick else "auto", options.seed)
    runs = options.make([Case("turns", scenario, options.controls, conditions, observer=JobRates)])["turns"]
    first = {control: observed[0] for control, observed in runs.observations.items()}
    measured = document(runs.measurement(), 0.0)
    return {"measured": measured, "films": first, "capacity_mbps": 1e3 * gbps_here(PAPER_GBPS)}


def rate_layers(result: Result) -> list[Part]:
    """One figure per control: the link over time, job by job."""
    return [
        Layers(control, "Mbit/s", rates["times_s"], rates["mbps"], result["capacity_mbps"])
        for control, rates in result["films"].items()
    ]


def here(result: Result) -> dict[str, str]:
    slowdowns = (f"{one['control']} {one['mean_slowdown']:.3f}" for one in result["measured"]["controls"])
    return {TWO_JOBS: f"mean slowdown: {', '.join(slowdowns)}"}


def present(result: Result) -> list[Part]:
    rows = []
    for control in result["measured"]["controls"]:
        times = [f"{job['mean_iteration_s']:.3f}" for job in control["jobs"]]
        rows.append((control["control"], *times, f"{fmean(job['slowdown'] for job in control['jobs']):.3f}"))
    names = [f"{job['name']}, s" for job in result["measured"]["controls"][0]["jobs"]]
    return [*rate_layers(result), Table("Iteration time", ("", *names, "mean slowdown"), rows)]


EXPERIMENT = Experiment(
    name="turns",
    figure="Figs. 1, 11(a)",
    shows="whether bursts of two jobs that meet share the link, or one sends while the other computes",
    run=run,
    present=present,
    here=here,
    paper={TWO_JOBS: "flows are staggered (a picture, no number)"},
    differs="0.4 Gbit/s instead of 25, models divided by 62.5.",
)
