"""Jobs hand hostd their counters: a unix socket, the kernel's word on which process it is, and sealed memory."""
