"""Certificates, made once: two CAs, and names of the first."""

from pathlib import Path

import pytest

from paceline.commands import authority
from paceline.service.tls import TlsFiles


class Certificates:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        authority.init(directory, days=2, force=False, now=authority.utc_now())

    def of(self, name: str, *addresses: str) -> TlsFiles:
        if not (self.directory / f"{name}.crt").exists():
            authority.issue(self.directory, name, addresses, days=1, force=False, now=authority.utc_now())
        return TlsFiles(*(self.directory / file for file in ("ca.crt", f"{name}.crt", f"{name}.key")))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="session")
def other_certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("other-certs"))
