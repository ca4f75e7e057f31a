"""The facts of a job whose program marks no iteration, as if it did: pipelines and averaged models over gloo, JAX and
plain NCCL. An iteration ends where the rhythm of what the shim counts says so (rhythm.py); what is announced and has
come to its end counts from there.

Before it has a rhythm the job has no iterations, and is left to TCP. A job that marks one is believed from then on.
"""

from paceline.flowcore.demand.demand import ANNOUNCING
from paceline.flowcore.demand.facts import JobFacts
from paceline.flowcore.demand.rhythm import IterationRhythm


class UnmarkedIterations:
    def __init__(self) -> None:
        self._rhythm = IterationRhythm()
        self._announced_bytes = self._completed_bytes = 0.0  # when the last iteration ended
        self._expected_bytes = 0.0  # announced in that; 0: not known yet

    @property
    def ended(self) -> int:
        return self._rhythm.iterations

    def divide(self, facts: JobFacts) -> JobFacts:
        if facts.iteration > self.ended:
            return facts  # it does mark them
        before = self.ended
        self._rhythm.observe(facts.completed_bytes, facts.resting)
        if passed := self.ended - before:
            self._expected_bytes = (facts.announced_bytes - self._announced_bytes) / passed if before else 0.0
            self._announced_bytes, self._completed_bytes = facts.announced_bytes, facts.completed_bytes
        announced_bytes = facts.announced_bytes - self._announced_bytes
        return facts._replace(
            iteration=self.ended,
            announced=bool(self.ended) and announced_bytes > ANNOUNCING * self._expected_bytes,
            announced_bytes=announced_bytes,
            completed_bytes=facts.completed_bytes - self._completed_bytes,
            expected_bytes=self._expected_bytes,
            began_ns=0,
        )
