"""The picture in README: python -m bench.web.picture docs/web.png

Three jobs on a star of three hosts, a minute or less of them, and the page as it looks then.
"""

import sys
import time
from pathlib import Path

from bench.testbed.rootless import ensure_networks
from bench.web.browser import Browser
from bench.web.small_cluster import SmallCluster, ring

JOBS = (
    ring("bert-large", ("h0", "h1"), 15.0, 0.45),
    ring("gpt2-medium", ("h0", "h1"), 30.0, 0.7),
    ring("resnet50", ("h0", "h1"), 8.0, 0.3),
)
RUN_S = 34.0
WIDTH, HEIGHT = 1180, 930


def main(path: str) -> None:
    ensure_networks()
    with (
        SmallCluster(JOBS, hosts=3, link_gbps=0.5, watched_hosts=["h0"]) as cluster,
        Browser(cluster.popen, WIDTH, HEIGHT) as browser,
    ):
        browser.open(cluster.url)
        time.sleep(RUN_S)
        browser.screenshot(Path(path))


if __name__ == "__main__":
    main(sys.argv[1])
