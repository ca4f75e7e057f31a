"""Reports on their way to one answer each: whose word is still missing about which of their flows.

Law: a report is answered once, when nothing is missing any more or nobody is waited for any longer; a flow's answer
belongs to the last report that named it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain

from flowcore.patterns import FlowId

# In place of a switch's name, among what an answer waits for: the parent's decision. The parent's table answers too,
# and is not the same.
VERDICT = "verdict"


@dataclass(slots=True)
class OpenReport:
    number: int
    letters: int  # the number of the letters that asked others about it
    slot: int
    flows: list[FlowId]
    missing: dict[FlowId, set[str]]  # switches' names, or VERDICT


class Waiting:
    """Each call that may have brought the last missing word returns the reports to answer now."""

    def __init__(self) -> None:
        self._report_of: dict[FlowId, OpenReport] = {}

    def __contains__(self, flow: FlowId) -> bool:
        """Whether its report is still open."""
        return flow in self._report_of

    def for_word_on(self, flow: FlowId) -> bool:
        """Whether somebody has yet to speak about it."""
        report = self._report_of.get(flow)
        return report is not None and flow in report.missing

    def begin(self, report: OpenReport) -> None:
        self._report_of.update(dict.fromkeys(report.flows, report))

    def stop(self, flow: FlowId) -> list[OpenReport]:
        """The flow's answer belongs to another report from now on, or to none."""
        report = self._report_of.pop(flow, None)
        if report is None:
            return []
        report.flows.remove(flow)
        return [report] if report.missing.pop(flow, None) and not report.missing else []

    def stop_all(self, flows: Iterable[FlowId]) -> list[OpenReport]:
        """Before any is answered: what is left of an older report is then what no newer one names."""
        return list(chain.from_iterable(map(self.stop, flows)))

    def heard_from(self, whom: str, flow: FlowId, number: int | None = None) -> list[OpenReport]:
        """Somebody has spoken about the flow, in answer to the letter of this number or to one before it."""
        report = self._report_of.get(flow)
        if report is None or flow not in report.missing or (number is not None and number < report.letters):
            return []
        missing = report.missing[flow]
        missing.discard(whom)
        if not missing:
            del report.missing[flow]
        return [] if report.missing else [report]

    def no_longer_for(self, whom: set[str]) -> list[OpenReport]:
        reports = self._open(lambda _: True)
        for report in reports:
            report.missing = {flow: left for flow, who in report.missing.items() if (left := who - whom)}
        return [report for report in reports if not report.missing]

    def overdue(self, slot: int) -> tuple[list[OpenReport], set[str]]:
        """Reports that have waited for more than a slot, and the switches they waited for."""
        reports = self._open(lambda report: report.slot < slot - 1)
        # A verdict may stay away because nothing changed; a table owes an answer.
        late = {peer for report in reports for peers in report.missing.values() for peer in peers} - {VERDICT}
        for report in reports:
            report.missing.clear()
        return reports, late

    def end(self, flows: Iterable[FlowId]) -> None:
        """Their report is being answered."""
        for flow in flows:
            self._report_of.pop(flow, None)

    def _open(self, which: Callable[[OpenReport], bool]) -> list[OpenReport]:
        reports = {id(report): report for report in self._report_of.values()}
        return [report for report in reports.values() if which(report)]
