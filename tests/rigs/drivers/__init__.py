"""Drivers, commands and a cluster of Spark in processes of their own."""
