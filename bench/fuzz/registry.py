"""The targets by name."""

from collections.abc import Callable

from bench.fuzz.configuration import ConfigurationTarget
from bench.fuzz.control import ControlTarget
from bench.fuzz.page import PageTarget
from bench.fuzz.plugin import PluginTarget
from bench.fuzz.segments import SegmentTarget
from bench.fuzz.target import Target
from bench.fuzz.wire import WireTarget

TARGETS: dict[str, Callable[[], Target]] = {
    target.name: target
    for target in (WireTarget, SegmentTarget, ControlTarget, ConfigurationTarget, PluginTarget, PageTarget)
}
