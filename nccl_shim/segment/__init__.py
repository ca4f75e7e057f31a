"""The counters in shared memory: layout, writers, reader."""
