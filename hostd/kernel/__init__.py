"""What the kernel offers: netlink, devices, sockets of jobs, their counters."""
