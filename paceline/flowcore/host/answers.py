"""When the switch was asked and when it last spoke: the one bookkeeping of asked and heard.

A report's answer may never come (the stream broke, a newer report took its place), so only the last questions are kept.
A host with nothing to send asks nothing: silence counts from when there was something to ask.
"""

MOST_OPEN = 64
DOUBTED_PART = 16


class AnswerClock:
    """Of one host. Times are nanoseconds of the clock that hosts and switches share."""

    __slots__ = ("_asked_ns", "_newcomers_ns", "heard_ns", "rtt_ns")

    def __init__(self) -> None:
        self.rtt_ns = 0  # from a new claim to its grant, which may have been decided several switches up
        self.heard_ns = 0  # the switch's last message, or since when one is missed
        self._asked_ns: dict[int, int] = {}  # by the report's number
        self._newcomers_ns: int | None = None  # the last new claim; reports of one time are one

    def asked(self, number: int, now_ns: int, *, newcomers: bool) -> None:
        self._asked_ns[number] = now_ns
        if newcomers:
            self._newcomers_ns = now_ns
        if len(self._asked_ns) > MOST_OPEN:
            del self._asked_ns[next(iter(self._asked_ns))]

    def waited_ns(self, number: int, now_ns: int) -> int | None:
        """For the answer to this report; None where it is not known."""
        asked_ns = self._asked_ns.get(number)
        return None if asked_ns is None else now_ns - asked_ns

    def heard(self, number: int, now_ns: int) -> None:
        """The switch answers the report of this number, or pushes."""
        self.heard_ns = now_ns
        asked_ns = self._asked_ns.pop(number, None)
        if asked_ns is not None and asked_ns == self._newcomers_ns:
            self.rtt_ns = now_ns - asked_ns

    def not_asked(self) -> None:
        """For a burst that may be too short for its answer. One late answer must not be the last that is asked for."""
        self.rtt_ns -= self.rtt_ns // DOUBTED_PART

    def begin_asking(self, now_ns: int) -> None:
        """There was nothing to ask until now."""
        self.heard_ns = now_ns

    def age_ns(self, asking_since_ns: int, now_ns: int) -> int:
        """Of the switch's last message, as far as there was something to ask."""
        return max(0, now_ns - max(asking_since_ns, self.heard_ns))

    def clock_set(self, by_ns: int) -> None:
        """What was asked at another time is not timed."""
        self._asked_ns.clear()
        self._newcomers_ns = None
        self.heard_ns += by_ns
