"""For mkdocs.yml: the pages at the top of the checkout are pages of the site, and links between them and docs/ hold."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
AT_THE_TOP = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, page in AT_THE_TOP.items():
        text = re.sub(r"\]\(docs/", "](", (ROOT / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=_to_pages(text, "")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return _to_pages(markdown, "../")


def _to_pages(text: str, before: str) -> str:
    """Links to files at the top become links to their pages."""
    for name, page in AT_THE_TOP.items():
        text = text.replace(f"]({before}{name}", f"]({page}")
    return text
