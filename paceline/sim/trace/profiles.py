"""Models: how much they exchange per iteration and how long they compute.

Sizes and times of the first four are Table III of Ada-SRSF (batch 16 or 64 on a V100: t_f + t_b). The other
models are named in the traces, which say how long an iteration takes; their sizes are Table 3 of CASSINI where it has
them, else their published parameters at four bytes each. A file of tensor sizes overrides a size (`--tensors`).

Skew (one tensor is most of the model) and the exchange as a share of the compute time, by tier, are Table I of Dally;
of models that it does not have, the skew is that of their largest layer, and the share unknown.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.flowcore.model.fields import InputError


@dataclass(frozen=True, slots=True)
class ModelProfile:
    size_mb: float
    compute_s: float | None = None  # None: the trace must say
    tensors_mb: tuple[float, ...] = ()
    skewed: bool = False
    exchange_share: tuple[float, float, float] | None = None  # on one machine, in one rack, across the network


PROFILES: dict[str, ModelProfile] = {
    "vgg16": ModelProfile(526.4, 0.0895, skewed=True),
    "resnet50": ModelProfile(99.2, 0.0624, exchange_share=(0.12, 0.12, 0.38)),
    "inception3": ModelProfile(103.0, 0.0873),
    "lstm": ModelProfile(251.8, 0.0788, skewed=True),
    "alexnet": ModelProfile(244.4, skewed=True, exchange_share=(0.02, 0.13, 1.00)),
    "vgg11": ModelProfile(507.0, skewed=True, exchange_share=(0.01, 0.06, 0.07)),
    "vgg19": ModelProfile(549.0, skewed=True),
    "googlenet": ModelProfile(26.5),
    "inception4": ModelProfile(170.7),
    "resnet18": ModelProfile(46.8, exchange_share=(0.07, 1.16, 27.49)),
    "resnet101": ModelProfile(178.2),
    "resnet152": ModelProfile(240.8),
    "shufflenet_v2_x1_0": ModelProfile(9.1),
    "mobilenet_v3": ModelProfile(21.9, skewed=True, exchange_share=(0.42, 9.40, 195.92)),
    "bert": ModelProfile(450.0),
    "bert-large": ModelProfile(1340.0, exchange_share=(0.08, 0.23, 7.15)),
    "gpt2": ModelProfile(497.8),
    "a2c": ModelProfile(6.7),
    "dqn": ModelProfile(6.7),
}


def read_tensors(path: Path) -> dict[str, ModelProfile]:
    """PROFILES with the sizes of a JSON file of {model: [MB per tensor]}."""
    try:
        tables = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(str(path), "the file", f"no JSON ({error})", "{model: [MB per tensor]}") from None
    if not isinstance(tables, dict):
        raise InputError(str(path), "the file", "no object", "{model: [MB per tensor]}")
    profiles = dict(PROFILES)
    for model, sizes in tables.items():
        if not isinstance(sizes, list) or not sizes or not all(_is_size(size) for size in sizes):
            raise InputError(str(path), model, "something else", "a list of sizes in MB above 0")
        known = profiles.get(model, ModelProfile(1.0))
        profiles[model] = replace(known, size_mb=float(sum(sizes)), tensors_mb=tuple(map(float, sizes)))
    return profiles


def _is_size(size: object) -> bool:
    return isinstance(size, int | float) and not isinstance(size, bool) and 0 < size < 1e6


Profiles = Mapping[str, ModelProfile]
