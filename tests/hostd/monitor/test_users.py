"""What people call the jobs of several users, and which job they mean."""

import os
import pwd
from pathlib import Path

import pytest

from hostd.monitor import users as users_module
from hostd.monitor.users import JobNames, Users
from paceline.flowcore.model.patterns import FlowId, Role


@pytest.fixture
def passwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "passwd"
    made.write_text("root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/:/bin/sh\nali:x:1000:1000::/:/bin/sh\nbroken\n")
    monkeypatch.setattr(users_module, "PASSWD", made)
    return made


def test_a_user_has_a_name_where_it_is_known(passwd: Path) -> None:
    users = Users()
    assert [users.of(users.job(uid, "a")) for uid in (0, 1000, 1001)] == ["root", "alice", "1001"]
    with passwd.open("a") as file:
        file.write("bob:x:1001:1001::/:/bin/sh\n")
    os.utime(passwd, ns=(1, 1))
    users.read()
    assert users.of("1001/a") == "bob"
    passwd.unlink()
    users.read()
    assert users.of("1001/a") == "bob", "what was known is better than nothing"


def test_names_are_the_kernels_word_where_it_has_one() -> None:
    own = pwd.getpwuid(os.getuid()).pw_name
    assert Users().of(Users().job(os.getuid(), "a")) == own


def test_a_name_alone_where_it_is_enough(passwd: Path) -> None:
    names = JobNames(["1000/bert", "1001/bert", "1000/llama"], Users())
    assert [names.shown(f"{uid}/bert") for uid in (1000, 1001)] == ["alice/bert", "1001/bert"]
    assert names.shown("1000/llama") == "llama"
    assert names.shown_flow(FlowId("1000/bert", "h0", "h1", Role.RING)) == "alice/bert/ring/h0>h1"
    assert names.every() == "1001/bert, alice/bert, llama"


def test_which_job_a_person_means(passwd: Path) -> None:
    names = JobNames(["1000/bert", "1001/bert", "1000/llama"], Users())
    assert names.meant("bert") == ["1000/bert", "1001/bert"]
    assert names.meant("alice/bert") == names.meant("1000/bert") == ["1000/bert"]
    assert names.meant("llama") == names.meant("alice/llama") == ["1000/llama"]
    assert names.meant("bob/bert") == names.meant("") == names.meant("1000") == []


def test_a_mapped_user(passwd: Path) -> None:
    users = Users({1000: "team", 1001: "team"})
    assert users.job(1000, "a") == users.job(1001, "a") == "team/a"
    assert users.of("team/a") == "team" and users.means("team/a", "team/a") and not users.means("alice/a", "team/a")
