"""The documentation site: it builds, every page is in its menu, and no link or anchor leads nowhere."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def build(site: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for page in [*(path.stem for path in (ROOT / "docs").glob("*.md")), "contributing", "changelog"]:
        assert (tmp_path / page / "index.html").is_file(), page
    assert 'href="operations/"' in (tmp_path / "index.html").read_text(), "README's links lead to pages"
