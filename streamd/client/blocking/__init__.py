"""Clients that wait, one for each protocol: no Twisted, no threads, no event loop."""

from streamd.client.blocking.faststream import FastStreamClient
from streamd.client.blocking.pravega import PravegaClient, Reader, Writer
from streamd.client.blocking.sesp import SespClient, Topic
from streamd.client.blocking.smq import SmqClient

__all__ = ["FastStreamClient", "PravegaClient", "Reader", "SespClient", "SmqClient", "Topic", "Writer"]
