"""The daemon on every GPU host: progress of jobs and counters of the kernel in, rates out."""
