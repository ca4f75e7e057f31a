"""Jobs over NCCL on a GPU: every way of launching them and two real models, two at a time and each alone.

Slowdowns and limits are those of real_jobs.py, the cases those of gpu_job_cases.py.
"""

from bench.experiments.acceptance.gpu_job_cases import SUITE
from bench.experiments.acceptance.real_jobs import present
from bench.experiments.acceptance.real_jobs import run as run_suite
from bench.experiments.experiment import Experiment, Options, Result
from bench.testbed.accelerator import gpu, kernels_side_by_side


def run(options: Options) -> Result:
    with kernels_side_by_side() as has_mps:
        return {"gpu": gpu(), "mps": has_mps, **run_suite(options, SUITE)}


EXPERIMENT = Experiment(
    name="gpu-jobs",
    figure="",
    shows="whether jobs over NCCL take turns at 1, 5 and 10 Gbit/s, and what real models gain",
    run=run,
    present=present,
    differs="all ranks share one GPU; computing is a pause, or a small batch of a real model and pauses.",
    repeats=3,
)
