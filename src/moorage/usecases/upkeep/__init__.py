"""Work on tables after the commit: publishing, purging, jobs, reports."""
