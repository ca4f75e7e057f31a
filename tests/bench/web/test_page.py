"""The page in a real browser, on a real cluster: names, bars that move, a daemon that is killed and comes back."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from bench.web.browser import Browser, chromium
from bench.web.small_cluster import SmallCluster, ring

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no Chromium here: scripts/setup browser"),
]

PATIENCE_S = 40.0  # on a busy machine; nothing here waits that long for its own sake
TRICKY = "<img src=x onerror=alert(1)>"
JOBS = (ring("bert", ("h0", "h1"), 1.0, 0.1), ring(TRICKY, ("h0", "h1"), 1.5, 0.12))
# The pixels of the first chart, as a number that changes with them.
PICTURE = """(() => { const canvas = document.querySelector("canvas");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height - 40).data;
  let sum = 0; for (let at = 0; at < data.length; at += 4) sum = (sum * 31 + data[at] * 7 + data[at + 2]) % 1e9;
  return sum; })()"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SmallCluster]:
    with SmallCluster(JOBS, hosts=2, link_gbps=0.2, watched_hosts=["h0"]) as made:
        yield made


@pytest.fixture(scope="module")
def browser(cluster: SmallCluster) -> Iterator[Browser]:
    with Browser(cluster.popen) as made:
        made.open(cluster.url)
        yield made


def has(text: str, selector: str = "body") -> str:
    return f"document.querySelector({json.dumps(selector)}).innerText.includes({json.dumps(text)})"


def test_the_page_shows_jobs_as_text_and_bars_that_move(browser: Browser) -> None:
    for job in ("bert", TRICKY):
        browser.until(has(job, "#jobs"), PATIENCE_S)
        browser.until(has(job, "#legend"), PATIENCE_S)
    assert browser.evaluate("document.images.length") == 0
    browser.until(has("live", "#daemons"))
    browser.until(
        "document.querySelectorAll('.link canvas').length >= 3", PATIENCE_S
    )  # promised both ways, measured one way
    first = browser.evaluate(PICTURE)
    browser.until(f"{PICTURE} !== {first}", PATIENCE_S)
    slowdowns = "[...document.querySelectorAll('#jobs td:nth-child(5)')].some(cell => Number(cell.innerText) >= 1)"
    browser.until(slowdowns, PATIENCE_S)
    assert not browser.errors


def test_the_switch_tells_of_its_hosts(cluster: SmallCluster) -> None:
    """Every host tells about itself once a second; one that has just come back has told nothing yet."""
    command = [sys.executable, "-m", "paceline", "status", "--cluster", "--switch", cluster.switch_address, "--json"]
    expected = {"connected": True, "mode": "enforce", "backend": "htb"}
    end_s, shown = time.monotonic() + PATIENCE_S, {}
    while time.monotonic() < end_s:
        with cluster.popen(command, stdout=subprocess.PIPE) as asked:
            said = asked.communicate(timeout=PATIENCE_S)[0]
        if asked.returncode == 0:
            shown = next(host for host in json.loads(said)["hosts"] if host["name"] == "h1")
            if expected.items() <= shown.items() and {job["name"] for job in shown["jobs"]} == {"bert", TRICKY}:
                return
        time.sleep(0.5)
    pytest.fail(f"the switch does not know its host: {shown}")


def test_it_fits_a_telephone_and_keeps_an_hour(browser: Browser) -> None:
    browser.resize(400, 800)
    browser.dark(True)
    assert browser.evaluate("document.documentElement.scrollWidth") == 400
    browser.evaluate("document.querySelector('#range input[value=\"2\"]').click()")
    browser.until("document.querySelectorAll('.link canvas').length >= 3", PATIENCE_S)
    browser.evaluate("document.querySelector('#range input[value=\"0\"]').click()")
    browser.dark(False)
    browser.resize(1200, 900)
    assert not browser.errors


def test_daemons_that_are_killed_are_away_and_come_back(cluster: SmallCluster, browser: Browser) -> None:
    cards = "[...document.querySelectorAll('#daemons > li')]"
    away = f"{cards}.filter(one => one.classList.contains('away') && one.innerText.includes('away for')).length"
    browser.until(f"{cards}.length === 2 && {away} === 0")
    killed = (cluster.switch, cluster.hosts["h0"])
    for daemon in killed:
        daemon.process.kill()
    for daemon in killed:
        daemon.process.wait()
    browser.until(f"{away} === 2", 5)
    browser.until(has("2 away", "#connection"))
    for daemon in killed:
        daemon.start()
    browser.until(f"{away} === 0", PATIENCE_S)
    assert not browser.errors
