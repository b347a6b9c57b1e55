"""Stores as earlier versions wrote them: each must open for ever."""
