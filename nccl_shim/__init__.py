"""What runs inside the job: counters in shared memory, and their reader.

Law: nothing here may fail, slow or change training. Inside the job only the standard library is used; what
goes wrong is one line on standard error, after which the job is simply not observed.
"""

__version__ = "0.1.0"
