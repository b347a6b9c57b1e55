"""Group commit: what arrives while the disk is busy becomes the next commit.

Promises: places are claimed at once and in order; a waiter is told after the sync that covers it, in order; a commit
that finds no room fails everything pending; a failed sync ends the process.

For others: `appending` (append, fan out, broadcast, publish), `levels` (its arguments, and ack levels), `gathering` (a
commit, and the thread that writes it), `pipeline` (one is gathered while another is written), `full` (a full disk),
`tail` (who waits for the next record), `pace` (how much the disk takes in the time of a commit), `wakeup` (from the
writer thread back to the reactor's).
"""
