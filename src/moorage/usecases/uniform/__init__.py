"""UniForm: managed Delta tables that Iceberg clients read at the same version."""
