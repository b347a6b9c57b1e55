"""One Protocol and Factory for each wire protocol, all on one base.

| module | what it is |
|---|---|
| `permitted` | what the peer of a connection may do, and how fast |
| `holding` | how much it may hold, and when it is not read |
| `sending` | how replies go out, and who is told that they did |
| `order` | requests in order, replies in order |
| `base` | the life of a connection: the class that all protocols are built on |
| `factory` | makes connections, counts them, and ends them together |
| `sesp`, `smq`, `faststream`, `pravega`, `fujin` | the protocols |
| `storage` | the messages for tools, beside Pravega's own |
| `fujin_…` | parts of Fujin: settings, readers, transactions, pings |
"""
