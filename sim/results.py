"""What a run over a trace says, as one flat record: the row of a sweep and the JSON of `paceline sim trace`."""

from dataclasses import asdict
from math import inf
from statistics import fmean, median

from flowcore.units import bytes_from_mb
from sim.run import percentile
from sim.trace import Run, TraceRun
from sim.traces.job import exchange_s

Row = dict[str, object]

CDF_POINTS = 101


def row(run: TraceRun, wall_s: float) -> Row:
    """Every key but wall_s and decision_us depends on the trace, the options and the seed alone."""
    options, usage = run.options, run.usage
    finished = [one for one in run.runs.values() if one.end_s < inf]
    origin_s = min((one.job.arrival_s for one in run.runs.values()), default=0.0)
    jcts_s = [one.end_s - (one.job.arrival_s - origin_s) for one in finished]
    waits_s = [one.start_s - (one.job.arrival_s - origin_s) for one in finished]
    elapsed_s = max(run.now_s, 1e-9)
    capacity_bps = run.engine.network.capacity_bps[:-1]
    detailed_s = max(elapsed_s - run.skipped_s, 1e-9)
    utilization = sorted((run.engine.network.carried_bytes() * 8 / (capacity_bps * detailed_s)).tolist())
    decisions_us = sorted(ns / 1e3 for ns in run.engine.control.decisions_ns)
    return {
        "policy": options.policy,
        "placement": options.placement,
        "seed": options.seed,
        "servers": options.servers,
        "gpus_per_server": options.gpus_per_server,
        "jobs": len(run.runs),
        "jobs_finished": len(finished),
        "jobs_refused": run.refused,
        "mean_jct_s": fmean(jcts_s) if jcts_s else None,
        "median_jct_s": median(jcts_s) if jcts_s else None,
        "p95_jct_s": percentile(jcts_s, 95) if jcts_s else None,
        "p99_jct_s": percentile(jcts_s, 99) if jcts_s else None,
        "mean_wait_s": fmean(waits_s) if waits_s else None,
        "makespan_s": elapsed_s,
        "gpu_utilization": usage.gpu_s / (elapsed_s * options.servers * options.gpus_per_server),
        "gpu_compute_share": computed_gpu_s(finished) / (elapsed_s * options.servers * options.gpus_per_server),
        "machines_used_mean": usage.machine_s / elapsed_s,
        "fragmentation_mean": usage.fragmentation_s / elapsed_s,
        "jobs_running_mean": usage.running_s / elapsed_s,
        "jobs_running_most": usage.most_running,
        "iterations": sum(run.iterations.values()),
        "network": network(run, finished),
        "iteration": iterations(run),
        "link_utilization_cdf": cdf(utilization),
        "jct_cdf_s": cdf(sorted(jcts_s)),
        "settle_us": {f"p{percent}": percentile(decisions_us, percent) for percent in (50, 90, 99)},
        "settle_cdf_us": cdf(decisions_us),
        "flows_sending_mean": run.engine.flow_steps / max(run.engine.steps, 1),
        "steps": run.engine.steps,
        "simulated_s": elapsed_s,
        "skipped_s": run.skipped_s,
        "wall_s": wall_s,
    }


def network(run: TraceRun, finished: list[Run]) -> Row:
    """Of the jobs on several servers: how much of their time went to communication, and how much to contention.

    `exchange` is what is not computing; `contention` what being alone at the reference speed would have saved.
    """
    spread = [one for one in finished if one.servers > 1]
    total_s = sum(one.end_s - one.start_s for one in spread)
    if not total_s:
        return {"jobs": len(spread), "exchange_share": None, "contention_share": None}
    compute_s = sum(one.job.iterations * one.job.compute_s for one in spread)
    alone_s = compute_s + sum(one.job.iterations * exchange_s(one.job.model_mb, one.servers) for one in spread)
    return {
        "jobs": len(spread),
        "bytes": sum(one.job.iterations * bytes_from_mb(one.job.model_mb) for one in spread),
        "exchange_share": max(0.0, 1.0 - compute_s / total_s),
        "contention_share": max(0.0, 1.0 - alone_s / total_s),
    }


def computed_gpu_s(finished: list[Run]) -> float:
    """GPU time spent computing: what Ada-SRSF calls utilization."""
    return sum(one.job.gpus * one.job.iterations * one.job.compute_s for one in finished)


def iterations(run: TraceRun) -> Row:
    """Of the jobs on several servers, every iteration alike."""
    times_s = [time_s for of_job in run.iterations_s.values() for time_s in of_job]
    if not times_s:
        return {"mean_s": None, "p99_s": None}
    return {"mean_s": fmean(times_s), "p99_s": percentile(times_s, 99)}


def cdf(ordered: list[float]) -> list[float]:
    """The values at 0, 1, … 100 %."""
    if not ordered:
        return []
    last = len(ordered) - 1
    return [ordered[round(last * point / (CDF_POINTS - 1))] for point in range(CDF_POINTS)]


def options_of(run: TraceRun) -> Row:
    """For provenance: how it was run."""
    options = asdict(run.options)
    options["stragglers"] = bool(options["stragglers"])
    return {key: None if value == inf else value for key, value in options.items()}
