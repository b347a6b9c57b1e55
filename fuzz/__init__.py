"""Fuzzing: any bytes against the decoders that read what others wrote, and the laws that must hold all the same.

`codec` and `files` have the laws, `targets` the table of what is fuzzed, `engine` runs one target under Atheris, and
``python -m fuzz`` runs them all, or replays an input. See ``docs/testing.md``.
"""
