"""What counts inside the job: hooks into torch.distributed and torch RPC."""
