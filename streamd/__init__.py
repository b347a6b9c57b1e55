"""streamd: one daemon, several streaming protocols, one durable log."""

__version__ = "0.1.0"
