"""Pravega's append blocks, and the messages for tools on the same port.

`protocol` is one connection; `tools` carries out the messages for tools.
"""
