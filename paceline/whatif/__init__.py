"""What jobs would gain: the jobs that hosts have watched, simulated as they are and as Paceline would pace them.

hosts' records (record.py) ──▶ a scenario of the measured jobs (measured.py) ──▶ slowdowns (prediction.py)
"""
