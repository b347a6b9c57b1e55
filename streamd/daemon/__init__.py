"""The daemon as a process: `streamd.service` is its life, and uses these modules.

`process` prepares the process (limits, signals, exit status), `log` is the log, `notify` talks to systemd, and `reload`
applies what SIGHUP changes: all of it, or nothing.
"""
