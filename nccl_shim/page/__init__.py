"""The page: what hostd tells a process of a job. The writer is hostd's, the reader the job's; both are in C, too."""
