"""The laws that every protocol keeps, and a description of each protocol that they are tried on.

A law is a class of tests that knows no protocol; `every.every` makes a test case of it for each description.
A new protocol is one module here, beside `sesp.py`, and one word in `every.py`.
"""
