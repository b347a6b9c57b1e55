"""The core of every client: what to send, what a reply means, when to connect again. It knows no socket and no loop.

`session`       a `Session` is one connection's side of a protocol: requests to bytes, replies to answers.
`connection`    a `ClientConnection` opens a session, watches it for silence and closes it; a `Driver` moves its bytes.
`reconnecting`  `Reconnecting` makes a lost connection again, and says when to give up.
`commands`      `command` makes a coroutine of the core a method: one that blocks, or one that is awaited.

Commands are coroutines that await nothing but answers and each other. Under asyncio and on Twisted's reactor they are
awaited as they are. In a blocking client `Driver.until` returns when the answer is there, so a command never suspends:
its first step is its last.
"""
