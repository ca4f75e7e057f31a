"""Jobs from files: one reader per format, all giving TraceJobs. The files themselves are not part of Paceline."""
