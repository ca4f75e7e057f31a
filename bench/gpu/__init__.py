"""NCCL on a GPU, checked end to end."""
