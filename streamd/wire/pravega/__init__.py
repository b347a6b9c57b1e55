"""Pravega on the wire: framed messages, big endian, of two protocols that share a port.

`documented` has the codec of a connection, and the append blocks that Pravega's document describes. A connection that
opens with Hello speaks today's protocol: its messages are in `today`, those of table segments in `tables`, its appends
in `appends`, what it is answered in `replies`. In both, the bytes of a segment are those of its `events`.
"""
