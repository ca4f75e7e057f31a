"""The same from a program that marks no iterations, as one of JAX or of plain NCCL: the plugin's counts are all."""

from tests.hostd.nccl import launching_job


def main(assignment: str) -> None:
    launching_job.main(assignment, marks=False)
