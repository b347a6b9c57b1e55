"""What twistd finds: the service maker, the ``quic:`` and ``tlsfile:`` endpoints, and one line for each protocol.

It is loaded often, so it imports little.
"""

from twisted.application.service import ServiceMaker

from streamd.plugin import ProtocolPlugin
from streamd.quic.plugin import QuicServerParser
from streamd.tls.plugin import TlsServerParser

quic = QuicServerParser()
tls = TlsServerParser()
streamd = ServiceMaker("streamd", "streamd.tap", "streaming protocols over one durable log", "streamd")

sesp = ProtocolPlugin("sesp", "streamd.protocols.sesp", "tcp:4840:interface=127.0.0.1", "SESP, lines for telnet")
smq = ProtocolPlugin("smq", "streamd.protocols.smq", "tcp:4841:interface=127.0.0.1", "Simple Message Queue")
pravega = ProtocolPlugin(
    "pravega", "streamd.protocols.pravega.protocol", "tcp:12345:interface=127.0.0.1", "Pravega's segment store"
)
controller = ProtocolPlugin(
    "controller", "streamd.controller.protocol", "tcp:9090:interface=127.0.0.1", "Pravega's controller (gRPC)"
)
faststream = ProtocolPlugin(
    "faststream", "streamd.protocols.faststream.protocol", "tcp:1273:interface=127.0.0.1", "FastStreamDB"
)
fujin = ProtocolPlugin("fujin", "streamd.protocols.fujin.factory", "quic:4848:interface=127.0.0.1", "Fujin over QUIC")
http = ProtocolPlugin(
    "http", "streamd.http.site", "tcp:4880:interface=127.0.0.1", "the dashboard, /metrics and /healthz"
)
