"""Reports on their way to one answer each: which word is still missing about which of their flows.

A report whose flows stay within the switch is answered at once. Another waits, for each of its flows, for a word from
every other switch on the path, and for the parent's decision where the flow's share is decided there:

    taken ──▶ pending ──last missing word, or its switch is lost──▶ answered
                 │ ├───one word missing for more than a slot──────▶ answered with what was said last
                 │ ╰───all its flows are withdrawn────────────────▶ answered with nothing
                 ╰─────a newer report names all its flows─────────▶ replaced: the newer one is answered

Law: a report is answered once. A flow's answer belongs to the last report that named it, which takes over since when
each word has been waited for. So a host that reports every slot is answered although its newer report always comes
before the word on the older one, and only a switch that has said nothing for all that time counts as silent.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from paceline.flowcore.messages.reports import NO_ANSWER
from paceline.flowcore.model.patterns import FlowId

# In place of a switch's name, among the words a report waits for: the parent's decision about the share. The parent's
# table answers too, and is not the same.
PARENT_DECISION = "parent's decision"
# And this switch's own decision, where the links are divided a little later (gathering.py).
OWN_DECISION = "own decision"


class Wait(NamedTuple):
    """For one word about one flow."""

    since_slot: int  # when the first report that needed it came
    number: int  # of the report that was forwarded then
    answered: bool = False  # that one was, while a newer one was already under way


@dataclass(slots=True)
class PendingReport:
    sender: str
    number: int  # as its host counts
    slot: int
    forwarded: int  # the number of the reports forwarded for it
    flows: list[FlowId] = field(default_factory=list)
    waits: dict[FlowId, dict[str, Wait]] = field(default_factory=dict)  # by switches' names, or PARENT_DECISION
    _earlier: dict[FlowId, dict[str, Wait]] = field(default_factory=dict)  # of the reports it replaced

    def wait_for(self, words: Iterable[str], flow: FlowId) -> None:
        earlier, anew = self._earlier.get(flow, {}), Wait(self.slot, self.forwarded)
        self.waits.setdefault(flow, {}).update({word: earlier.get(word, anew) for word in words})

    def take_over(self, flow: FlowId, older: "PendingReport") -> None:
        """What is missing there has been waited for all along, if it is waited for here."""
        if flow in older.waits:
            self._earlier[flow] = older.waits[flow]

    def stop_waiting(self, flow: FlowId, word: str) -> None:
        del self.waits[flow][word]
        if not self.waits[flow]:
            del self.waits[flow]


class PendingReports:
    """Each call that may have brought the last missing word returns the reports to answer now."""

    def __init__(self) -> None:
        self._report_of: dict[FlowId, PendingReport] = {}

    def __contains__(self, flow: FlowId) -> bool:
        """Whether the report that named the flow last is still pending."""
        return flow in self._report_of

    def __bool__(self) -> bool:
        """Whether any is."""
        return bool(self._report_of)

    def waits_about(self, flow: FlowId) -> bool:
        """Whether a word about this flow is still missing."""
        report = self._report_of.get(flow)
        return report is not None and flow in report.waits

    def begin(self, report: PendingReport) -> None:
        self._report_of.update(dict.fromkeys(report.flows, report))

    def replace(self, newer: PendingReport, flows: Sequence[FlowId]) -> list[PendingReport]:
        """The answer to these flows belongs to a newer report from now on. First each takes over its waits: what is
        left of an older report is then what no newer one names, and is answered if nothing of it is missing."""
        for flow in flows:
            if flow in self._report_of:
                newer.take_over(flow, self._report_of[flow])
        complete = [report for flow in flows for report in self.stop(flow)]
        return [report for report in complete if report.flows]

    def stop(self, flow: FlowId) -> list[PendingReport]:
        """The flow's answer belongs to another report from now on, or to none."""
        report = self._report_of.pop(flow, None)
        if report is None:
            return []
        report.flows.remove(flow)
        was_missing = report.waits.pop(flow, None) is not None
        return [report] if was_missing and report.flows and not report.waits else []

    def withdraw(self, flow: FlowId) -> list[PendingReport]:
        """The flow needs no answer. But its report does, although it has no other: the host waits for one."""
        report = self._report_of.get(flow)
        complete = self.stop(flow)
        return complete if report is None or report.flows else [report]

    def heard(self, word: str, flow: FlowId, number: int | None = None) -> list[PendingReport]:
        """A switch has spoken about the flow, in answer to the forwarded report of this number; None: to no report."""
        report = self._report_of.get(flow)
        wait = None if report is None else report.waits.get(flow, {}).get(word)
        if report is None or wait is None:
            return []  # no report waits for it
        if number is not None and number < report.forwarded:
            # It answers an older report, or pushed before it read the newer one. What it says now will do only if the
            # newer answer stays away; but if it answers the first report that needed it, the switch is not silent.
            if number >= wait.number:
                report.waits[flow][word] = wait._replace(answered=True)
            return []
        report.stop_waiting(flow, word)
        return [] if report.waits else [report]

    def answered(self, word: str, number: int) -> None:
        """The switch has answered the forwarded report of this number, whichever flows it left out: it is not silent
        about those, and has refused their claims."""
        if number == NO_ANSWER:
            return
        for report in self._pending(lambda _: True):
            for missing in report.waits.values():
                if (wait := missing.get(word)) is not None and wait.number <= number:
                    missing[word] = wait._replace(answered=True)

    def divided(self, parent_decides: Callable[[FlowId], bool]) -> list[PendingReport]:
        """This switch has divided its links, but for the flows about which its parent decides."""
        complete = []
        for report in self._pending(lambda report: any(OWN_DECISION in missing for missing in report.waits.values())):
            for flow, missing in list(report.waits.items()):
                if (wait := missing.get(OWN_DECISION)) is not None:
                    if parent_decides(flow):
                        missing[PARENT_DECISION] = wait
                    report.stop_waiting(flow, OWN_DECISION)
            if not report.waits:
                complete.append(report)
        return complete

    def lose(self, words: set[str]) -> list[PendingReport]:
        """None of these will come."""
        reports = self._pending(lambda _: True)
        for report in reports:
            for flow, missing in list(report.waits.items()):
                for word in missing.keys() & words:
                    report.stop_waiting(flow, word)
        return [report for report in reports if not report.waits]

    def overdue(self, slot: int) -> tuple[list[PendingReport], set[str]]:
        """Reports that have waited for a word for more than a slot, and the switches that said nothing all the while.

        A decision may stay away because nothing changed; a table owes an answer.
        """
        reports = self._pending(lambda report: any(wait.since_slot < slot - 1 for _, wait in _waits(report)))
        late = [(word, wait) for report in reports for word, wait in _waits(report) if wait.since_slot < slot - 1]
        for report in reports:
            report.waits.clear()
        return reports, {word for word, wait in late if not wait.answered} - {PARENT_DECISION, OWN_DECISION}

    def end(self, flows: Iterable[FlowId]) -> None:
        """Their report is being answered."""
        for flow in flows:
            self._report_of.pop(flow, None)

    def _pending(self, which: Callable[[PendingReport], bool]) -> list[PendingReport]:
        reports = {id(report): report for report in self._report_of.values()}
        return [report for report in reports.values() if which(report)]


def _waits(report: PendingReport) -> Iterable[tuple[str, Wait]]:
    return (one for missing in report.waits.values() for one in missing.items())
