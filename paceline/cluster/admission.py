"""Jobs that no cluster, or not this one, could ever finish are refused at once, with the reason; the others go on."""


def refusal(gpus: int, iterations: int, cluster_gpus: int) -> str | None:
    """Why a job cannot be taken, or None."""
    if gpus < 1:
        return f"it asks for {gpus} GPUs"
    if gpus > cluster_gpus:
        return f"it asks for {gpus} GPUs of {cluster_gpus}"
    if iterations < 1:
        return f"it has {iterations} iterations"
    return None
