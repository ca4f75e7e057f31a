"""The models are those that were published, and their computing can be stretched; on the CPU, by themselves."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

from bench.workload.choice import MODELS as PARAMETERS  # noqa: E402
from bench.workload.kinds.real_model import MODELS, prepare  # noqa: E402
from bench.workload.models import resnet50  # noqa: E402
from bench.workload.models.staged import Pace  # noqa: E402

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resnet50, "IMAGE_PIXELS", 32)


@pytest.fixture
def few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resnet50, "BLOCKS", ((8, 2, 1), (16, 2, 2)))


@pytest.fixture(scope="module")
def group() -> Iterator[None]:
    """Of one process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize(("name", "millions"), [("resnet50", 25.56), ("gpt2-small", 124.4)])
def test_a_model_has_the_parameters_that_were_published(name: str, millions: float) -> None:
    kind, _ = MODELS[name]
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in kind().parameters())
    assert count == PARAMETERS[name]
    assert count / 1e6 == pytest.approx(millions, rel=5e-4)


def test_the_stages_are_the_published_ones() -> None:
    with torch.device("meta"):
        assert {name: len(kind().stages) for name, (kind, _) in MODELS.items()} == {"resnet50": 16, "gpt2-small": 12}


@pytest.mark.usefixtures("few_blocks")
def test_every_stage_has_its_part_of_the_pauses_in_both_passes() -> None:
    model, pauses = resnet50.ResNet50(), list[float]()
    model.pace = Pace(pauses.append, len(model.stages))
    model.pace.stretch(0.96)
    batch, targets = model.random_batch(1, CPU)
    model.eval()  # one image has no variance to normalize by
    model(batch, targets).backward()
    assert pauses == pytest.approx([0.08] * 4 + [0.16] * 4)
    model.pace.stretch(-1.0)  # the model alone takes longer than it should
    model.pace.forward()
    assert pauses[-1] == 0.0


@pytest.mark.usefixtures("group", "few_blocks")
@pytest.mark.parametrize("sharing", ["ddp", "fsdp"])
def test_a_model_is_trained_and_its_gradients_come_stage_by_stage(sharing: str) -> None:
    paused = list[float]()
    iterate = prepare(CPU, paused.append, "resnet50", sharing)
    iterate(30.0)
    assert len(paused) == 8 and 0.0 < sum(paused) < 30.0
    assert all(later >= earlier for earlier, later in pairwise(paused))
    first = sum(paused)
    iterate(60.0)
    assert sum(paused[8:]) == pytest.approx(first + 30.0)
