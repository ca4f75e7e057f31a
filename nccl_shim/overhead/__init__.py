"""What being observed costs a job: `python -m nccl_shim.overhead`."""
