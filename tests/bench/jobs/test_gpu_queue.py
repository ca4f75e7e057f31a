"""Jobs wait for GPUs: first come, first served, no GPU twice, and none idle for the first that waits."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from bench.experiments.paper_jobs import MODELS, host_names, queued_job
from bench.jobs.gpu_queue import GpuQueue

HOSTS, GPUS = host_names(), 2


def a_queue() -> GpuQueue:
    return GpuQueue(HOSTS, GPUS, seed=1)


def test_jobs_are_spread_and_servers_are_on_other_hosts_than_their_workers() -> None:
    queue = a_queue()
    for number in range(4):
        queue.arrive(queued_job(str(number), "VGG16"))  # two workers and two servers
    started = [queue.start_next() for _ in range(4)]
    assert [job.name for job in started if job] == ["0", "1", "2", "3"]
    assert all(len({*job.workers, *job.servers}) == 4 for job in started if job)
    workers = Counter(host for job in started if job for host in job.workers)
    assert set(workers) == set(HOSTS) and max(workers.values()) == 2


def test_nobody_overtakes_the_first_that_waits() -> None:
    queue = a_queue()
    for number, model in enumerate(["GPT2", "GPT2", "GPT2", "VGG16", "GPT2", "ResNet50"]):
        queue.arrive(queued_job(str(number), model))
    started = [queue.start_next() for _ in range(4)]
    assert all(started)  # eleven of twelve GPUs
    assert queue.start_next() is None  # though there might be GPUs for the one after it
    queue.end("3")
    following = queue.start_next()
    assert following is not None and following.name == "4" and queue.start_next() is None


@given(st.lists(st.tuples(st.sampled_from(sorted(MODELS)), st.booleans()), max_size=40))
def test_no_gpu_is_given_twice_and_every_job_starts_in_the_end(events: list[tuple[str, bool]]) -> None:
    queue, running, order = a_queue(), {}, []

    def start() -> None:
        while (job := queue.start_next()) is not None:
            running[job.name] = job
            order.append(job.name)
            used = Counter(host for one in running.values() for host in one.workers)
            assert len(set(job.workers)) == len(job.workers) and max(used.values()) <= GPUS

    for number, (model, one_ends) in enumerate(events):
        queue.arrive(queued_job(str(number), model))
        start()
        if one_ends and running:
            queue.end(running.popitem()[0])
            start()
    while running:
        queue.end(running.popitem()[0])
        start()
    assert order == [str(number) for number in range(len(events))]
