"""What hostd tells the processes of jobs: a page for each that has registered (nccl_shim/page)."""
