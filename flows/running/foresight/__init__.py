"""What a run would do, before anything runs: which steps find their record, which do not, and why."""
