"""fair: nobody paces anybody. What remains is TCP, whose ideal is max-min fair sharing of the links."""

from typing import ClassVar

from flowcore.policy.base import Policy


class Fair(Policy):
    name = "fair"
    paced: ClassVar[bool] = False
