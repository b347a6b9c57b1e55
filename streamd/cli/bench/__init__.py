"""``streamctl bench``: how fast a daemon is, here and now.

`run` is the command and measures; `daemon` starts one to be measured where none is named, `plot` draws the result.
"""
