"""How much a job counts beside others: its weight multiplies what a policy values it at (policy/paceline.py).

Law: a weight is from LEAST to MOST, and 1 where nothing is said. So no job can be worth more than a hundred times
another, and a job that waits becomes worth more without bound: the least weighted job gets its turn, too
(tests/flowcore/policy/test_weights.py).
"""

LEAST, MOST = 0.1, 10.0
BEST_EFFORT = LEAST  # a job of this class gets what others leave, and its turn now and then

CLASSES = {"best-effort": BEST_EFFORT, "normal": 1.0}
