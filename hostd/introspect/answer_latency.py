"""How long the switch takes to answer, and how old its last word is.

A report's answer may never come (the stream broke, another report took its place), so questions are kept for a while
only. Whoever has nothing to send asks nothing: the age of the last word counts from when there was something to ask.
"""

MOST_OPEN = 64


class Negotiation:
    def __init__(self) -> None:
        self._asked_ns: dict[int, int] = {}  # by the report's number
        self._heard_ns: int | None = None

    def asked(self, number: int, now_ns: int) -> None:
        self._asked_ns[number] = now_ns
        if len(self._asked_ns) > MOST_OPEN:
            del self._asked_ns[next(iter(self._asked_ns))]

    def heard(self, answers: int, now_ns: int) -> int | None:
        """Since the question that this answers; None: it answers none that is known."""
        self._heard_ns = now_ns
        asked_ns = self._asked_ns.pop(answers, None)
        return now_ns - asked_ns if asked_ns is not None else None

    def age_ns(self, asking_since_ns: int, now_ns: int) -> int:
        """Of the last word, as far as anybody wanted one."""
        return max(0, now_ns - max(asking_since_ns, self._heard_ns or 0))
