"""What the operator wants for cross traffic, flows of no job, where it meets jobs on a link.

    yield           jobs wait for no turn there: each of their flows is one of TCP's beside the others
    fair            jobs take turns, and who sends stands for those that wait: together they get what TCP would give
                    them, no more and no less
    training-first  jobs take turns, and who sends counts for FIRST flows beside the others

The last two need hosts that can make a flow count for several (Claim.weighable); without that it is `yield`.
"""

FAIR, YIELD, TRAINING_FIRST = "fair", "yield", "training-first"
BACKGROUNDS = (FAIR, YIELD, TRAINING_FIRST)

FIRST = 16.0  # one flow of cross traffic keeps a seventeenth of the link
MOST_STOOD_FOR = 64.0  # a window larger than that only loses packets
