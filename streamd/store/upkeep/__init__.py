"""What an operator does with a store: verify, repair, backup and restore. Called by ``streamctl`` alone.

Promises: `verify` changes nothing; `repair` keeps a copy of all that it takes away, and gives up nothing but what lies
in damaged bytes; a backup is consistent while the daemon runs.
"""
