"""The picture in README: python -m bench.web.picture docs/web.png

Three jobs on two hosts, a minute of them, and the whole page as it looks then.
"""

import os
import sys
import time
from pathlib import Path

from bench.testbed.rootless import ensure_networks
from bench.web.browser import Browser
from bench.web.small_cluster import SmallCluster, ring

JOBS = (
    ring("bert-large", ("h0", "h1"), 7.0, 0.5),
    ring("gpt2-medium", ("h0", "h1"), 14.0, 0.9),
    ring("resnet50", ("h0", "h1"), 4.0, 0.4),
)
RUN_S, SETTLED_S = 70.0, 3.0  # by then the troubles of the start are past
WIDTH, HEIGHT = 1180, 1270


def main(path: str) -> None:
    ensure_networks()
    with SmallCluster(JOBS, hosts=2, link_gbps=0.2, watched_hosts=["h0", "h1"]) as cluster:
        for daemon in (cluster.switch, *cluster.hosts.values()):  # as important as the jobs, and as this process
            os.setpriority(os.PRIO_PROCESS, daemon.pid, os.getpriority(os.PRIO_PROCESS, 0))
        time.sleep(RUN_S)
        with Browser(cluster.popen, WIDTH, HEIGHT) as browser:  # the page knows what was before it
            browser.open(cluster.url)
            time.sleep(SETTLED_S)
            browser.screenshot(Path(path))


if __name__ == "__main__":
    main(sys.argv[1])
