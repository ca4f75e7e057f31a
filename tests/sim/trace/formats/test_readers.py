"""Each format in a few lines that the test writes itself; wrong lines are named or counted."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from paceline.flowcore.model.fields import InputError
from paceline.sim.trace.formats import generated, lingjun, muri, philly, stragglers, tiresias
from paceline.sim.trace.formats.job import Refused
from paceline.sim.trace.profiles import PROFILES, read_tensors

MURI = "job_id,num_gpu,submit_time,iterations,model_name,iteration_time,resource_time_2\n7,8,2000,100,vgg16,214,66\n"
TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration\n3,4,30,100,resnet50,50\n"
PHILLY = "timestamp,duration,num_gpus\n2017-10-09 07:01:55,660.0,2\n"


def written(path: Path, text: str) -> Path:
    file = path / "trace.csv"
    file.write_text(text)
    return file


def test_muri(tmp_path: Path) -> None:
    (job,) = muri.read(written(tmp_path, MURI), PROFILES, 1, skip_bad=False).items
    assert (job.name, job.gpus, job.arrival_s, job.iterations, job.model_mb) == ("7", 8, 2.0, 100, 526.4)
    assert job.compute_s == pytest.approx(0.148)  # the iteration without its time on the network


def test_tiresias(tmp_path: Path) -> None:
    (job,) = tiresias.read(written(tmp_path, TIRESIAS), PROFILES, 1, skip_bad=False).items
    assert (job.gpus, job.arrival_s, job.iterations) == (4, 30.0, 100)
    assert 0.0 < job.compute_s < 0.5


def test_philly_draws_a_model_by_the_seed(tmp_path: Path) -> None:
    path = written(tmp_path, PHILLY * 1)
    one, again = (philly.read(path, PROFILES, 1, skip_bad=False).items[0] for _ in range(2))
    assert one == again
    assert one.gpus == 2
    assert one.iterations > 1


@pytest.mark.parametrize(
    ("read", "text", "bad"),
    [
        (muri.read, MURI, "8,many,0,1,vgg16,1,0"),
        (tiresias.read, TIRESIAS, "4,1,0"),
        (philly.read, PHILLY, "yesterday,1,1"),
        (philly.read, PHILLY, "2017-10-09 07:01:55,-3,1"),
    ],
)
def test_a_bad_line_is_named_or_counted(tmp_path: Path, read: Callable, text: str, bad: str) -> None:
    path = written(tmp_path, f"{text}{bad}\n")
    with pytest.raises(InputError, match=r"trace\.csv: line 3: "):
        read(path, PROFILES, 1, skip_bad=False)
    lines = read(path, PROFILES, 1, skip_bad=True)
    assert (len(lines.items), lines.skipped) == (1, 1)


@pytest.mark.parametrize(
    ("read", "text", "line", "reason"),
    [
        (muri.read, MURI, "8,1,0,1,unheard-of,1,0", "no model 'unheard-of' is known"),
        (muri.read, MURI, "8,1,0,0,vgg16,1,0", "it has 0 iterations"),
        (tiresias.read, TIRESIAS, "4,4,30,100,unheard-of,50", "no model 'unheard-of' is known"),
        (tiresias.read, TIRESIAS, "4,4,30,0,resnet50,50", "it has 0 iterations"),
    ],
)
def test_an_impossible_job_is_refused_and_the_rest_goes_on(
    tmp_path: Path, read: Callable, text: str, line: str, reason: str
) -> None:
    lines = read(written(tmp_path, f"{text}{line}\n"), PROFILES, 1, skip_bad=False)
    assert len(lines.items) == 1
    assert lines.refused == (Refused(line.split(",")[0], reason),)


def test_lingjun(tmp_path: Path) -> None:
    rows = ["a,G,P1,S1", "b,G,P1,S2", "c,G,P2,S1", "d,G,P1,S1"]
    topology = lingjun.read(written(tmp_path, "ip,DSW,PSW,ASW\n" + "\n".join(rows)), (10, 20, 40))
    assert len(topology.hosts) == 4
    assert len(topology.path("h0", "h1", "f")) == 2  # two hosts of one rack
    assert len(topology.path("h0", "h3", "f")) == 6  # racks of the same name in two pods are two racks


def test_stragglers_are_relative_to_the_mean(tmp_path: Path) -> None:
    text = "worker,time,batch_time_norm\n0,1,90\n1,1,110\n0,2,90\n1,2,110\n"
    assert stragglers.read(written(tmp_path, text)) == ((0.9, 0.9), (1.1, 1.1))


def test_tensor_sizes_add_up(tmp_path: Path) -> None:
    path = tmp_path / "tensors.json"
    path.write_text('{"vgg16": [1.0, 2.5], "mine": [4]}')
    profiles = read_tensors(path)
    assert (profiles["vgg16"].size_mb, profiles["mine"].size_mb) == (3.5, 4.0)
    path.write_text('{"vgg16": [-1]}')
    with pytest.raises(InputError, match="vgg16"):
        read_tensors(path)


def test_generated_jobs_follow_their_distributions() -> None:
    workload = generated.Workload(jobs=4000, arrival_every_s=2.0, burstiness=4.0, ps_share=0.25)
    jobs = generated.draw(workload, PROFILES, 1)
    assert jobs == generated.draw(workload, PROFILES, 1)
    gaps = [after.arrival_s - before.arrival_s for before, after in pairwise(jobs)]
    mean = sum(gaps) / len(gaps)
    squared_cv = sum((gap - mean) ** 2 for gap in gaps) / len(gaps) / mean**2
    assert mean == pytest.approx(2.0, rel=0.15)
    assert squared_cv == pytest.approx(4.0, rel=0.3)
    assert sum(job.gpus == 1 for job in jobs) / len(jobs) == pytest.approx(0.5, abs=0.05)
    assert sum(job.pattern == "ps" for job in jobs) / len(jobs) == pytest.approx(0.25, abs=0.05)


def test_an_exact_mix_is_exact_and_arrivals_and_iterations_stay_within_bounds() -> None:
    workload = generated.Workload(burstiness=0.0, exact_mix=True, iterations=(1000, 6000))
    jobs = generated.draw(workload, PROFILES, 3)
    assert sorted(job.gpus for job in jobs) == sorted(gpus for gpus, count in generated.GPU_MIX for _ in range(count))
    assert jobs[0].arrival_s < 60.0 and 1140.0 < jobs[-1].arrival_s < 1200.0
    assert all(1000 <= job.iterations <= 6000 for job in jobs)


def test_draws_of_old_files_stay_what_they_were() -> None:
    """Results of sweeps are compared over versions."""
    jobs = generated.draw(generated.Workload(jobs=3), PROFILES, 1)
    assert [(job.gpus, job.iterations) for job in jobs] == [(1, 5967), (2, 1248), (8, 677)]
