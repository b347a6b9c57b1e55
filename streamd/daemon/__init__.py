"""What the daemon does with its process: `streamd.service` is its life, and uses these.

`process` prepares it (limits, signals, how it ends), `log` is what it says, `notify` what it tells systemd, `reload`
what SIGHUP changes: all of it, or nothing.
"""
