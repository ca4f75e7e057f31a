"""Every experiment by name: the paper's in its order, then our own."""

from bench.experiments.acceptance import alone, gpu_jobs, mixes, real_jobs
from bench.experiments.paper import delay, friendly, jct, jct_simulated, loss, overhead, rate, slots, speed, turns

EXPERIMENTS = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        turns,
        rate,
        slots,
        jct,
        jct_simulated,
        speed,
        loss,
        friendly,
        delay,
        overhead,
        mixes,
        alone,
        real_jobs,
    )
}
SHOWN = EXPERIMENTS | {gpu_jobs.EXPERIMENT.name: gpu_jobs.EXPERIMENT}  # also those that need a GPU
