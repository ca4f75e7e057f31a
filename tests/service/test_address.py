"""Addresses as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.service.address import HostPort, host_port, stays_on_this_machine


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        ("[::1]:0", ("::1", 0)),
        ("tor-1.example.org:65535", ("tor-1.example.org", 65535)),
    ],
)
def test_parts_and_back(text: str, parts: tuple[str, int]) -> None:
    assert host_port(text) == parts
    assert str(HostPort(*parts)) == text


@pytest.mark.parametrize(
    "text", ["", "h0", ":80", "h0:", "h0:65536", "::1:80", "h0:80 ", "h0:８０", "a,b:80", "http://h0:80"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        host_port(text)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "unix:/run/x", "unix:///run/x", "unix-abstract:x"],
)
def test_seen_by_nobody_outside(address: str) -> None:
    assert stays_on_this_machine(address)


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0:1", "[::]:1", "*:1", ":1", "10.0.0.1:1", "h0:1", "localhost.example.org:1", "127.1:1", "[::2]:1"),
        *("127.0.0.1.example.org:1", "ipv4:127.0.0.1:1,10.0.0.1:1", "dns:///h0:1", "127.0.0.1", "unixx:/a", ""),
    ],
)
def test_what_may_be_seen_outside(address: str) -> None:
    assert not stays_on_this_machine(address)


@given(st.ip_addresses(v=4))
def test_only_loopback_among_all_addresses(address) -> None:
    assert stays_on_this_machine(f"{address}:1") == (address.packed[0] == 127)
