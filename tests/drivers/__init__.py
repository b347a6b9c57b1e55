"""Spark in processes of its own: drivers, commands and a cluster, which run, stop and are killed."""
