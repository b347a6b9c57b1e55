"""What twistd finds: the service maker, the ``quic:`` endpoint, and one line for each protocol.

It is loaded often, so it imports little.
"""

from twisted.application.service import ServiceMaker

from streamd.plugin import StreamProtocol
from streamd.quic.plugin import QuicServerParser

quic = QuicServerParser()
streamd = ServiceMaker("streamd", "streamd.tap", "streaming protocols over one durable log", "streamd")

sesp = StreamProtocol("sesp", "streamd.protocols.sesp", "tcp:4840:interface=127.0.0.1", "SESP, lines for telnet")
smq = StreamProtocol("smq", "streamd.protocols.smq", "tcp:4841:interface=127.0.0.1", "Simple Message Queue")
pravega = StreamProtocol(
    "pravega", "streamd.protocols.pravega", "tcp:12345:interface=127.0.0.1", "Pravega's append blocks"
)
faststream = StreamProtocol(
    "faststream", "streamd.protocols.faststream", "tcp:1273:interface=127.0.0.1", "FastStreamDB"
)
fujin = StreamProtocol("fujin", "streamd.protocols.fujin", "quic:4848:interface=127.0.0.1", "Fujin over QUIC")
