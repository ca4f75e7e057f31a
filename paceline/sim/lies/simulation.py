"""What a lie costs other jobs: a simulation in which the claims of one job are not so, on every host it runs on."""

from dataclasses import replace
from typing import Any

from paceline.flowcore.messages.events import Effect, HostInput, Send, SwitchEvent
from paceline.flowcore.messages.reports import Claim, Report
from paceline.flowcore.model.scenario import Scenario
from paceline.sim.lies.telling import Lie, in_the_name_of, phantoms, told
from paceline.sim.reference.engine import Simulation


class LyingSimulation(Simulation):
    def __init__(self, scenario: Scenario, policy: str, seed: int, *, liar: str, lie: Lie, **options: Any) -> None:
        """Phantoms are claimed by the first host of the liar."""
        self._liar, self._lie = liar, lie
        super().__init__(scenario, policy, seed, **options)

    def _perform(self, actor: str, event: HostInput | SwitchEvent, effects: list[Effect]) -> None:
        super()._perform(actor, event, [self._told(actor, effect) for effect in effects])

    def _told(self, actor: str, effect: Effect) -> Effect:
        if actor not in self.hosts or not isinstance(effect, Send) or not isinstance(effect.message, Report):
            return effect
        report, topology = effect.message, self.scenario.topology
        if self._lie in (Lie.PHANTOM, Lie.BORROWED_NAME):
            if actor != self.jobs[self._liar].hosts[0]:
                return effect
            forged = phantoms(actor, topology) if self._lie is Lie.PHANTOM else self._borrowed(actor)
            claimed = {claim.flow for claim in report.claims}
            more = tuple(claim for claim in forged if claim.flow not in claimed)
            return Send(effect.to, replace(report, claims=report.claims + more))
        lies = told(
            replace(report, claims=tuple(c for c in report.claims if c.flow.job == self._liar)), self._lie, topology
        )
        others = tuple(claim for claim in report.claims if claim.flow.job != self._liar)
        return Send(effect.to, replace(report, claims=lies.claims + others))

    def _borrowed(self, host: str) -> tuple[Claim, ...]:
        """In the name of a job that does not run on this host, if there is one."""
        others = [name for name in self.jobs if name != self._liar]
        victim = min(others, key=lambda name: host in self.jobs[name].hosts)
        return in_the_name_of(victim, host, self.scenario.topology)
