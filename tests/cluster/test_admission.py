import pytest

from paceline.cluster.admission import refusal


@pytest.mark.parametrize(
    ("gpus", "iterations", "reason"),
    [
        (8, 1, None),
        (16, 1, None),
        (17, 1, "it asks for 17 GPUs of 16"),
        (0, 1, "it asks for 0 GPUs"),
        (8, 0, "it has 0 iterations"),
    ],
)
def test_what_can_never_run_is_refused_with_the_reason(gpus: int, iterations: int, reason: str | None) -> None:
    assert refusal(gpus, iterations, cluster_gpus=16) == reason
