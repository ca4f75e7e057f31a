"""A renamed configuration key: the old name works and warns, both names at once are refused."""

import pytest

from paceline.flowcore.model.fields import InputError, Value
from paceline.service.renamed_keys import with_new_names

RENAMED = {"takeover": "replace_qdisc"}


def test_the_old_name_works_and_the_warning_names_the_new_one(caplog: pytest.LogCaptureFixture) -> None:
    table = with_new_names(Value("hostd.toml", "", {"takeover": True, "name": "h0"}), RENAMED)
    assert table == Value("hostd.toml", "", {"replace_qdisc": True, "name": "h0"})
    assert [record.getMessage() for record in caplog.records] == [
        "hostd.toml: takeover is deprecated: use replace_qdisc"
    ]


def test_the_new_name_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    table = Value("hostd.toml", "", {"replace_qdisc": True})
    assert with_new_names(table, RENAMED) == table
    assert not caplog.records


def test_both_names_at_once_are_refused() -> None:
    table = Value("hostd.toml", "htb", {"takeover": True, "replace_qdisc": False})
    with pytest.raises(InputError, match=r"hostd.toml: htb.takeover: found a second name of 'replace_qdisc', expected"):
        with_new_names(table, RENAMED)
