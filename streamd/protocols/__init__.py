"""One Protocol and Factory for each wire protocol, all on `streamd.connections`.

| module | what it is |
|---|---|
| `sesp`, `smq` | SESP and Simple Message Queue |
| `faststream` | FastStreamDB |
| `pravega` | Pravega's append blocks, and the messages for tools |
| `fujin` | Fujin over QUIC |
"""
