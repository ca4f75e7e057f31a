"""`auto`: a backend for each job."""
