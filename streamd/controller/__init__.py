"""Pravega's controller: scopes, streams and transactions, for clients that speak today's protocol.

`protocol` is for the plugin file. What a controller knows is attributes of one segment (`state`), so that it survives
whatever the store survives.
"""
