"""Which reports are answered when: every transition of a pending report, written out."""

from paceline.flowcore.messages.reports import NO_ANSWER
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.switch.pending_reports import PARENT_DECISION, PendingReport, PendingReports

A = FlowId("a", "h0", "h1", Role.RING)
B = FlowId("b", "h0", "h2", Role.RING)


def pending(number: int, slot: int, *flows: FlowId, words: tuple[str, ...] = ("agg",)) -> PendingReport:
    """A report that waits for these words about each of its flows; its forwarded reports have ten times its number."""
    report = PendingReport("h0", number, slot, forwarded=10 * number, flows=list(flows))
    for flow in flows:
        report.wait_for(words, flow)
    return report


def begun(*reports: PendingReport) -> PendingReports:
    reports_pending = PendingReports()
    for report in reports:
        reports_pending.begin(report)
    return reports_pending


def test_a_report_is_answered_with_the_last_missing_word() -> None:
    report = pending(1, 0, A, B, words=("agg", "tor1"))
    reports = begun(report)
    assert reports.heard("agg", A, 10) == reports.heard("agg", B, 10) == reports.heard("tor1", A, 10) == []
    assert reports.waits_about(B) and not reports.waits_about(A)
    assert reports.heard("tor1", B, 10) == [report]


def test_a_word_that_no_report_waits_for_answers_nothing() -> None:
    reports = begun(pending(1, 0, A))
    assert reports.heard("tor1", A, 10) == reports.heard("agg", B, 10) == []
    assert reports.waits_about(A)


def test_an_answer_to_an_older_report_does_not_do_for_a_newer_one() -> None:
    reports = begun(pending(2, 0, A))
    assert reports.heard("agg", A, 10) == []
    assert reports.waits_about(A)


def test_the_parents_decision_has_no_number_and_always_does() -> None:
    report = pending(2, 0, A, words=(PARENT_DECISION,))
    assert begun(report).heard(PARENT_DECISION, A) == [report]


def test_a_newer_report_on_all_flows_replaces_the_older_one() -> None:
    reports, newer = begun(pending(1, 0, A)), pending(2, 1, A)
    assert reports.replace(newer, [A]) == []
    reports.begin(newer)
    assert reports.heard("agg", A, 20) == [newer]


def test_what_is_left_of_an_older_report_is_answered_when_nothing_of_it_is_missing() -> None:
    older = pending(1, 0, A, B)
    reports = begun(older)
    assert reports.heard("agg", B, 10) == []
    assert reports.replace(PendingReport("h0", 2, 1, 20), [A]) == [older]
    assert older.flows == [B]


def test_a_report_whose_flows_are_all_withdrawn_is_answered_though_words_are_missing() -> None:
    report = pending(1, 0, A, B)
    reports = begun(report)
    assert reports.withdraw(A) == []
    assert reports.withdraw(B) == [report]
    assert reports.withdraw(B) == []  # once


def test_a_newer_report_takes_over_since_when_a_word_is_missing() -> None:
    reports = begun(pending(1, 0, A))
    newer = PendingReport("h0", 2, 1, 20, [A])
    reports.replace(newer, [A])
    newer.wait_for(["agg"], A)
    reports.begin(newer)
    assert reports.overdue(1) == ([], set())
    assert reports.overdue(2) == ([newer], {"agg"})


def test_a_switch_that_answered_the_older_report_is_late_but_not_silent() -> None:
    reports = begun(pending(1, 0, A))
    newer = PendingReport("h0", 2, 1, 20, [A])
    reports.replace(newer, [A])
    newer.wait_for(["agg"], A)
    reports.begin(newer)
    assert reports.heard("agg", A, 10) == []
    assert reports.overdue(2) == ([newer], set())


def test_a_parent_that_does_not_decide_is_not_silent() -> None:
    report = pending(1, 0, A, words=(PARENT_DECISION,))
    assert begun(report).overdue(2) == ([report], set())


def test_a_lost_switch_is_waited_for_no_longer() -> None:
    alone, still = pending(1, 0, A), pending(2, 0, B, words=("agg", "tor1"))
    reports = begun(alone, still)
    assert reports.lose({"agg"}) == [alone]
    assert reports.heard("tor1", B, 20) == [still]


def test_a_withdrawn_flow_no_longer_holds_its_report_up() -> None:
    report = pending(1, 0, A, B)
    reports = begun(report)
    assert reports.stop(A) == []
    assert reports.heard("agg", B, 10) == [report]
    assert A not in reports


def test_a_report_is_answered_once() -> None:
    report = pending(1, 0, A)
    reports = begun(report)
    assert reports.heard("agg", A, 10) == [report]
    reports.end(report.flows)
    assert A not in reports and reports.overdue(9) == ([], set())


def test_a_switch_that_answers_without_a_flow_has_refused_it_and_is_not_silent() -> None:
    report, other = pending(1, 0, A, B), pending(2, 0, FlowId("c", "h1", "h2", Role.RING))
    reports = begun(report, other)
    assert reports.heard("agg", A, 10) == []
    reports.answered("agg", 10)
    overdue, silent = reports.overdue(2)
    assert overdue == [report, other] and silent == {"agg"}, "the second was not answered"
    reports = begun(report := pending(1, 0, A, B))
    reports.answered("agg", 10)
    reports.answered("agg", NO_ANSWER)
    assert reports.overdue(1) == ([], set()) and reports.overdue(2) == ([report], set())
