"""What a run over a trace says, as one flat record: the row of a sweep and the JSON of `paceline sim trace`."""

from dataclasses import asdict
from math import inf
from statistics import fmean, median
from typing import Any

from paceline.flowcore.model.units import bytes_from_mb
from paceline.sim.all_reduce import exchange_s
from paceline.sim.run import percentile
from paceline.sim.trace.job_record import JobRecord
from paceline.sim.trace.run import TraceRun
from paceline.sim.trace.sampled import SampledEngine

Row = dict[str, Any]

CDF_POINTS = 101


def row(run: TraceRun, wall_s: float) -> Row:
    """Every key but wall_s and settle_* depends on the trace, the options and the seed alone. settle_us is how long one
    reallocation took."""
    options, usage = run.options, run.usage
    finished = [record for record in run.records.values() if record.end_s < inf]
    jcts_s = [record.end_s - record.arrival_s for record in finished]
    waits_s = [jct_s - record.run_s for jct_s, record in zip(jcts_s, finished, strict=True)]
    elapsed_s = max(run.now_s, 1e-9)
    return {
        "policy": options.policy,
        "placement": options.placement,
        "engine": options.engine,
        "seed": options.seed,
        "servers": options.servers,
        "gpus_per_server": options.gpus_per_server,
        "jobs": len(run.records),
        "jobs_finished": len(finished),
        "refused": [asdict(refused) for refused in run.refused],
        "mean_jct_s": fmean(jcts_s) if jcts_s else None,
        "median_jct_s": median(jcts_s) if jcts_s else None,
        "p95_jct_s": percentile(jcts_s, 95) if jcts_s else None,
        "p99_jct_s": percentile(jcts_s, 99) if jcts_s else None,
        "mean_wait_s": fmean(waits_s) if waits_s else None,
        "p95_wait_s": percentile(waits_s, 95) if waits_s else None,
        "mean_exchange_s": fmean(record.exchange_s for record in finished) if finished else None,
        "preemptions": sum(record.stops for record in run.records.values()),
        "makespan_s": elapsed_s,
        "gpu_utilization": usage.gpu_s / (elapsed_s * options.servers * options.gpus_per_server),
        "gpu_compute_share": computed_gpu_s(finished) / (elapsed_s * options.servers * options.gpus_per_server),
        "machines_used_mean": usage.machine_s / elapsed_s,
        "machine_hours": usage.machine_s / 3600,
        "fragmentation_mean": usage.fragmentation_s / elapsed_s,
        "profit_rate": profit_rate(finished, usage.machine_s),
        "cross_mb_mean": fmean(record.cross_bytes for record in finished) / 1e6 if finished else None,
        "jobs_running_mean": usage.running_s / elapsed_s,
        "jobs_running_most": usage.most_running,
        "jct_cdf_s": cdf(sorted(jcts_s)),
        "network": network(finished),
        "simulated_s": elapsed_s,
        "wall_s": wall_s,
    } | (traffic(run.engine, elapsed_s) if isinstance(run.engine, SampledEngine) else {})


def traffic(engine: SampledEngine, elapsed_s: float) -> Row:
    """What only an engine that moves flows knows."""
    simulation = engine.array
    detailed_s = max(elapsed_s - engine.skipped_s, 1e-9)
    capacity_bps = simulation.network.capacity_bps[:-1]
    utilization = sorted((simulation.network.carried_bytes() * 8 / (capacity_bps * detailed_s)).tolist())
    decisions_us = sorted(ns / 1e3 for ns in simulation.decisions_ns)
    return {
        "iterations": sum(engine.iterations.values()),
        "iteration": iterations(engine),
        "link_utilization_cdf": cdf(utilization),
        "settle_us": {f"p{percent}": percentile(decisions_us, percent) for percent in (50, 90, 99)},
        "settle_cdf_us": cdf(decisions_us),
        "flows_sending_mean": simulation.flow_steps / max(simulation.steps, 1),
        "steps": simulation.steps,
        "skipped_s": engine.skipped_s,
    }


def profit_rate(finished: list[JobRecord], machine_s: float) -> float | None:
    """Titan's K·P/(N·T) with a GPU's hour of computing as the price: GPU-hours sold per machine-hour used."""
    return computed_gpu_s(finished) / machine_s if machine_s else None


def network(finished: list[JobRecord]) -> Row:
    """Of the jobs on several servers: how much of their time went to communication, and how much to contention.

    `exchange` is what is not computing; `contention` what being alone at the reference speed would have saved.
    """
    spread = [record for record in finished if record.servers > 1]
    total_s = sum(record.run_s - record.restore_s for record in spread)
    if not total_s:
        return {"jobs": len(spread), "exchange_share": None, "contention_share": None}
    compute_s = sum(record.job.iterations * record.job.compute_s for record in spread)
    alone_s = compute_s + sum(
        record.job.iterations * exchange_s(record.job.model_mb, record.servers) for record in spread
    )
    return {
        "jobs": len(spread),
        "bytes": sum(record.job.iterations * bytes_from_mb(record.job.model_mb) for record in spread),
        "exchange_share": max(0.0, 1.0 - compute_s / total_s),
        "contention_share": max(0.0, 1.0 - alone_s / total_s),
    }


def computed_gpu_s(finished: list[JobRecord]) -> float:
    """GPU time spent computing: what Ada-SRSF calls utilization."""
    return sum(record.job.gpus * record.job.iterations * record.job.compute_s for record in finished)


def iterations(engine: SampledEngine) -> Row:
    """Of the jobs on several servers, every iteration alike."""
    times_s = [time_s for of_job in engine.iterations_s.values() for time_s in of_job]
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
