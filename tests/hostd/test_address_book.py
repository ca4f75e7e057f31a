"""Which host an address is."""

import socket
from typing import Any

import pytest

from hostd import address_book as module
from hostd.address_book import AddressBook, address_book

ADDRESSES = {
    "a": ("10.0.1.10", "fd00::10", "10.244.3.0/24"),
    "b": ("10.0.1.11", "10.244.0.0/16", "fd00:b::/32"),
    "b@r1": ("10.2.0.11",),
    "c@r2": ("10.3.0.11",),
}


def test_addresses_then_the_longest_network() -> None:
    book, problems = address_book(ADDRESSES, "a")
    assert not problems
    assert (book["10.0.1.10"], book["fd00::10"], book["10.0.1.11"]) == ("a", "a", "b")
    assert (book["10.244.3.7"], book["10.244.4.7"], book["fd00:b:1::1"]) == ("a", "b", "b")
    assert book.get("10.9.9.9") is None and "fd00:c::1" not in book and book.get("no address") is None
    assert book.has_network_of("b") and not book.has_network_of("c")


def test_rails_are_ends_of_their_own_where_this_host_has_them_too() -> None:
    assert address_book(ADDRESSES, "a")[0]["10.2.0.11"] == "b"
    assert address_book(ADDRESSES, "a", {"r1"})[0]["10.2.0.11"] == "b@r1"
    assert address_book(ADDRESSES, "a", {"r1"})[0]["10.3.0.11"] == "c"
    assert address_book(ADDRESSES, "b", {"r1"})[0]["10.2.0.11"] == "b", "its own NIC is itself"


def test_it_becomes_another_in_place() -> None:
    book = AddressBook({"10.0.0.1": "a"}, {"10.1.0.0/16": "a"})
    assert book["10.1.2.3"] == "a"
    book.become(AddressBook({"10.0.0.2": "b"}, {"10.1.2.0/24": "b"}))
    assert dict(book) == {"10.0.0.2": "b"} and book["10.1.2.3"] == "b" and "10.1.9.9" not in book
    assert book == AddressBook({"10.0.0.2": "b"}, {"10.1.2.0/24": "b"}) != AddressBook({"10.0.0.2": "b"})


def test_names_are_looked_up_and_a_silent_name_server_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"gpu-a": ["10.0.1.10"], "gpu-b": ["10.0.1.11", "fd00::11"], "twin": ["10.0.1.10"], "here": ["127.0.0.1"]}
    asked: list[str] = []

    def answer(name: str, *_: Any, **__: Any) -> list[tuple[object, ...]]:
        asked.append(name)
        if name in known:
            return [(0, 0, 0, "", (address, 0)) for address in known[name]]
        raise socket.gaierror(socket.EAI_AGAIN if name.startswith("slow") else socket.EAI_NONAME, "no")

    monkeypatch.setattr(module.socket, "getaddrinfo", answer)
    monkeypatch.setattr(module, "LOOKUPS", 1)
    book, problems = address_book({"a": ("gpu-a",), "b": ("gpu-b", "nowhere"), "c": ("twin", "here")}, "a")
    assert dict(book) == {"10.0.1.10": "a", "10.0.1.11": "b", "fd00::11": "b"}
    assert problems == ["nowhere is no known name: no", "twin, of c, is 10.0.1.10, which is a's"]
    asked.clear()
    _, problems = address_book({"a": ("slow-1", "slow-2", "gpu-a")}, "a")
    assert asked == ["slow-1"] and len(problems) == 3
