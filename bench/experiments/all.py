"""Every experiment by name: the paper's in its order, then our own promises."""

from bench.experiments import alone, delay, friendly, jct, loss, mixes, overhead, rate, slots, speed, turns

EXPERIMENTS = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (turns, rate, slots, jct, speed, loss, friendly, delay, overhead, mixes, alone)
}
