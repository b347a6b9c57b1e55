"""``streamctl repair``: what is damaged is cut out and kept, what is whole is saved.

`run` is the whole of it; the others are about one kind of file each.
"""
