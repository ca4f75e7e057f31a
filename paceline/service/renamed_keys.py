"""Configuration keys that were renamed: the old name works for one release, with a warning that names the new one."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from paceline.flowcore.model.fields import InputError, Value

_log = logging.getLogger(__name__)


def with_new_names(table: Value, renamed: Mapping[str, str]) -> Value:
    """The table with new names for old ones; `renamed` is old → new. Both names at once are refused."""
    found = dict(table.table())
    for old, new in renamed.items():
        if old in found:
            if new in found:
                key = table.at(old).key
                raise InputError(table.source, key, f"a second name of {new!r}", f"only {new!r}")
            _log.warning("%s: %s is deprecated: use %s", table.source, table.at(old).key, new)
            found[new] = found.pop(old)
    return replace(table, found=found)
