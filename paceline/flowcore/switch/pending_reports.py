"""Reports on their way to one answer each: whose word is still missing about which of their flows.

Law: a report is answered once, when nothing is missing any more or nobody is waited for any longer; a flow's answer
belongs to the last report that named it, which takes over how long others have been waited for. So a host that reports
every slot is answered although its newer report always comes before the word on the older one: after a slot of waiting
what others said last has to do, and only those who said nothing are silent.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from paceline.flowcore.model.patterns import FlowId

# In place of a switch's name, among what an answer waits for: the parent's decision. The parent's table answers too,
# and is not the same.
PARENT_DECISION = "share_update"


class Asked(NamedTuple):
    """Since when somebody has been waited for, the number of the letters that asked, and whether they were answered."""

    slot: int
    letters: int
    answered: bool = False  # while a newer report was waiting


Missing = dict[FlowId, dict[str, Asked]]  # by switches' names, or PARENT_DECISION


@dataclass(slots=True)
class PendingReport:
    number: int
    asked: Asked
    flows: list[FlowId] = field(default_factory=list)
    missing: Missing = field(default_factory=dict)
    _earlier: Missing = field(default_factory=dict)  # what older reports on the same flows waited for

    def replace(self, flow: FlowId, older: "PendingReport") -> None:
        """Who is missing there has been waited for all along, if it is waited for here."""
        if flow in older.missing:
            self._earlier[flow] = older.missing[flow]

    def wait_for(self, whom: Iterable[str], flow: FlowId) -> None:
        earlier = self._earlier.get(flow, {})
        self.missing.setdefault(flow, {}).update({one: earlier.get(one, self.asked) for one in whom})


class PendingReports:
    """Each call that may have brought the last missing word returns the reports to answer now."""

    def __init__(self) -> None:
        self._report_of: dict[FlowId, PendingReport] = {}

    def __contains__(self, flow: FlowId) -> bool:
        """Whether its report is still open."""
        return flow in self._report_of

    def for_word_on(self, flow: FlowId) -> bool:
        """Whether somebody has yet to speak about it."""
        report = self._report_of.get(flow)
        return report is not None and flow in report.missing

    def begin(self, report: PendingReport) -> None:
        self._report_of.update(dict.fromkeys(report.flows, report))

    def stop(self, flow: FlowId) -> list[PendingReport]:
        """The flow's answer belongs to another report from now on, or to none."""
        report = self._report_of.pop(flow, None)
        if report is None:
            return []
        report.flows.remove(flow)
        return [report] if report.missing.pop(flow, None) and not report.missing else []

    def replace_with(self, newer: PendingReport, flows: Sequence[FlowId]) -> list[PendingReport]:
        """Before any is answered: what is left of an older report is then what no newer one names."""
        for flow in flows:
            if flow in self._report_of:
                newer.replace(flow, self._report_of[flow])
        return list(chain.from_iterable(map(self.stop, flows)))

    def heard_from(self, whom: str, flow: FlowId, number: int | None = None) -> list[PendingReport]:
        """Somebody has spoken about the flow, in answer to the letter of this number or to one before it."""
        report = self._report_of.get(flow)
        if report is None or flow not in report.missing or whom not in report.missing[flow]:
            return []
        missing = report.missing[flow]
        if number is not None and number < report.asked.letters:
            if number >= missing[whom].letters:
                missing[whom] = missing[whom]._replace(answered=True)
            return []
        del missing[whom]
        if not missing:
            del report.missing[flow]
        return [] if report.missing else [report]

    def no_longer_for(self, whom: set[str]) -> list[PendingReport]:
        reports = self._open(lambda _: True)
        for report in reports:
            left = {flow: {one: who[one] for one in who if one not in whom} for flow, who in report.missing.items()}
            report.missing = {flow: who for flow, who in left.items() if who}
        return [report for report in reports if not report.missing]

    def overdue(self, slot: int) -> tuple[list[PendingReport], set[str]]:
        """Reports with somebody missing for more than a slot, and the switches that have said nothing all the while."""

        def late(report: PendingReport) -> list[tuple[str, Asked]]:
            missing = chain.from_iterable(who.items() for who in report.missing.values())
            return [(one, asked) for one, asked in missing if asked.slot < slot - 1]

        reports = self._open(lambda report: bool(late(report)))
        owing = {one for report in reports for one, asked in late(report) if not asked.answered}
        for report in reports:
            report.missing.clear()
        return reports, owing - {PARENT_DECISION}  # which may stay away because nothing changed; a table owes an answer

    def end(self, flows: Iterable[FlowId]) -> None:
        """Their report is being answered."""
        for flow in flows:
            self._report_of.pop(flow, None)

    def _open(self, which: Callable[[PendingReport], bool]) -> list[PendingReport]:
        reports = {id(report): report for report in self._report_of.values()}
        return [report for report in reports.values() if which(report)]
