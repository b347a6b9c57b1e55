"""Who may do what: peers, the rules that fit them, and the rates at which they are served.

| module | what it knows |
|---|---|
| `who` | whom a rule means |
| `peer` | who is at the other end of a connection |
| `permits` | the rules, and what they let one peer do |
| `pace` | token buckets |
| `exposure` | which listeners anybody on the network can reach, and which rules fit nobody |
"""
