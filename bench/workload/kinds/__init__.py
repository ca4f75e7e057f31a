"""Jobs as people train them, over gloo: one short module for each way of communicating (../choice.py lists them).

An iteration sends what a ring all-reduce of the scenario's model would: 2(n-1)/n × model bytes from every worker.
"""
