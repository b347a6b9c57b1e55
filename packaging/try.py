"""What packaging/try does with the service, inside of the container that it has booted. It needs nothing but Python.

``python3 try.py WAY``: streamd has been installed in that way a moment ago. Each step prints a line.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

DEADLINE_SECONDS = 120.0
WAY = sys.argv[1]
SETTINGS = Path("/etc/streamd/streamd.toml")
STORE = Path("/var/lib/private/streamd")
USER = "somebody"
SHARE = Path("/usr/local/share" if WAY == "install" else "/usr/share")
HOME = Path("/opt/streamd" if WAY == "install" else "/usr/lib/streamd")


def run(command: str, *, user: str = "root", status: int = 0) -> str:
    """What a command line prints, to both streams. Its status has to be this one."""
    words = [*([] if user == "root" else ["runuser", "-u", user, "--"]), "/bin/sh", "-ec", command]
    ended = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert ended.returncode == status, f"{command}: status {ended.returncode}\n{ended.stdout}"
    return ended.stdout


def told(heading: str) -> list[str]:
    """The blocks of commands or settings under a heading of docs/operations.md, to be done to the letter."""
    text = Path("/try/operations.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)
    return [re.sub("^    ", "", block, flags=re.MULTILINE) for block in blocks]


def show(name: str) -> str:
    """A property of the service."""
    return run(f"systemctl show --property {name} --value streamd.service").strip()


def logged(text: str) -> bool:
    """Whether the log of the service has it."""
    return text in run("journalctl --no-pager --unit streamd --output cat")


def wait_until(what: str, holds: Callable[[], object]) -> None:
    """Look again and again."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.1)


def ask(lines: bytes, answers: int) -> list[bytes]:
    """Answers of SESP, on a connection of their own."""
    connection = socket.create_connection(("127.0.0.1", 4840), DEADLINE_SECONDS)
    with connection, connection.makefile("rwb") as stream:
        stream.write(lines)
        stream.flush()
        return [stream.readline() for _ in range(answers)]


def active() -> bool:
    """Whether the service serves."""
    return show("ActiveState") == "active"


def change(pattern: str, value: str) -> None:
    """Another line in the settings."""
    text, count = re.subn(pattern, value, SETTINGS.read_text(), count=1, flags=re.MULTILINE)
    assert count, pattern
    SETTINGS.write_text(text)


@contextmanager
def knocking() -> Iterator[list[str]]:
    """Connections one after the other meanwhile. None is refused; what went wrong all the same is in the list."""
    wrong: list[str] = []
    ended = threading.Event()

    def knock() -> None:
        while not ended.is_set():
            try:
                # One that the old daemon took a moment before it stopped ends without an answer, as an idle one does.
                answer = ask(b"@t\n", 1)
                if answer not in ([b"+\n"], [b""]):
                    wrong.append(f"answered {answer!r}")
            except ConnectionResetError:
                pass
            except OSError as error:
                wrong.append(repr(error))

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        yield wrong
    finally:
        ended.set()
        thread.join()


def installed() -> None:
    """It is ready when the install returns, is restricted, and all that belongs to it has its place."""
    assert active() and show("UnitFileState") == "enabled", show("ActiveState")
    wait_until("the status tells how it is", lambda: show("StatusText").startswith("segments "))
    status = Path(f"/proc/{show('MainPID')}/status").read_text()
    assert "CapBnd:\t0000000000000000" in status and "Seccomp:\t2" in status, status
    for place in (
        *("man/man1/streamctl.1*", "man/man5/streamd.toml.5*", "man/man8/streamd.8*", "zsh/*/_streamctl"),
        *("bash-completion/completions/streamctl.bash", "fish/vendor_completions.d/streamctl.fish"),
        "doc/streamd/examples/pipelines/sessions.toml",
    ):
        assert glob.glob(str(SHARE / place)), place
    run("systemd-analyze verify --man=no streamd.service streamd.socket streamd-pipeline@.service")


def used() -> None:
    """streamctl finds the daemon, as root and as anybody; the files are root's to look at."""
    run(f"useradd --create-home {USER}")
    assert run("cd / && streamctl --version") == run("streamctl --version", user=USER)
    run("seq 3 | streamctl publish --create first")
    assert run("streamctl tail first", user=USER) == "1\n2\n3\n"
    assert "first" in run("streamctl topics", user=USER)
    assert run("cd / && streamctl verify") == "/var/lib/streamd: sound\n"
    assert "ermission denied" in run("cd / && streamctl verify", user=USER, status=1)
    assert "sound" in run("streamctl verify --path /var/lib/streamd")


def folded() -> None:
    """The compactor works under the restrictions, and the status text tells what there is."""
    change("^journal_file_bytes = .*", "journal_file_bytes = 1048576")
    run("systemctl restart streamd")
    assert ask(b"#t\n@t\n" + (b">" + b"x" * 65536 + b"\n") * 64, 66) == [b"+\n"] * 66
    wait_until("the compactor has folded", lambda: list(STORE.glob("packs/*.pack")))
    wait_until("the status tells of it", lambda: show("StatusText").startswith("segments 2, "))


def watched() -> None:
    """Stopped as if its reactor hung: systemd has to see that, end it and start another, which has everything."""
    drop_in = Path("/run/systemd/system/streamd.service.d/try.conf")
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text("[Service]\nWatchdogSec=2s\n")
    run("systemctl daemon-reload && systemctl restart streamd")
    os.kill(int(show("MainPID")), signal.SIGSTOP)
    wait_until("the watchdog has bitten", lambda: show("NRestarts") == "1" and active())
    assert ask(b"@t\n$63\n<\n<\n", 4)[2:] == [b"+" + b"x" * 65536 + b"\n", b"-None\n"]
    shutil.rmtree(drop_in.parent)
    run("systemctl daemon-reload && systemctl restart streamd")


def reloaded() -> None:
    """What can change does, what can't is named, and a broken file changes nothing."""
    pid = show("MainPID")
    before = SETTINGS.read_text()
    change("^line_bytes_max = .*", "line_bytes_max = 1000")
    change('^sync = "always"', 'sync = "never"')
    run("systemctl reload streamd")
    wait_until("the reload is done", lambda: logged("the configuration was read again"))
    assert logged("limits.line_bytes_max is 1000 now, was 1048576")
    assert logged("store.sync has changed in the file, and needs a restart")
    assert ask(b"@t\n>" + b"x" * 2000 + b"\n", 2)[1].startswith(b"-TooLong"), "the limit does not hold"
    SETTINGS.write_text(before + "nonsense = 1\n")
    run("systemctl reload streamd")
    wait_until("the mistake is told", lambda: logged("the configuration is refused and nothing is changed"))
    assert active() and ask(b"@t\n", 1) == [b"+\n"]
    assert "nonsense" in run(f"streamctl config check {SETTINGS}", status=2)
    SETTINGS.write_text(before)
    run("systemctl reload streamd")
    wait_until("the old limit is back", lambda: logged("limits.line_bytes_max is 1048576 now, was 1000"))
    assert show("MainPID") == pid


def held() -> None:
    """With the socket in systemd's hands nobody is refused while the daemon is started again."""
    endpoint, over = told("Socket activation")
    change(r"^\[sesp\]\n(#.*\n)*endpoint = .*", endpoint.strip())
    run(over)
    with knocking() as wrong:
        for _ in range(3):
            run("systemctl restart streamd")
    assert not wrong, wrong
    # And a connection starts a daemon that does not run.
    run("systemctl stop streamd 2>&1")
    assert not active() and ask(b"@t\n", 1) == [b"+\n"] and active()


def upgraded() -> None:
    """The next version has the data and the settings, and who connects meanwhile waits."""
    before, settings = run("streamctl --version"), SETTINGS.read_text()
    with knocking() as wrong:
        if WAY == "install":
            run("/try/two/packaging/install")
        else:
            run("apt-get install -qq --no-install-recommends /try/two/streamd_*.deb")
    assert not wrong, wrong
    assert active() and SETTINGS.read_text() == settings
    assert run("streamctl --version") == before.replace("\n", ".post1\n")
    assert b'.post1"' in ask(b"&\n", 1)[0], "the old one runs on"
    assert run("streamctl tail first", user=USER) == "1\n2\n3\n"
    run("systemctl is-active streamd.socket")


def restored() -> None:
    """A backup of the running store, then a restore, both as the page tells it."""
    (backup,) = told("Backup")
    (restore,) = told("Restore")
    run("mkdir -p /mnt")
    run(backup)
    run("echo 4 | streamctl publish first")
    run(restore)
    assert run("streamctl tail first", user=USER) == "1\n2\n3\n"
    assert ask(b"@t\n$63\n<\n", 3)[2] == b"+" + b"x" * 65536 + b"\n"
    run("echo 5 | streamctl publish first && streamctl verify --path /var/lib/streamd")
    run("rm -r /var/lib/private/streamd.broken")


def pipelined() -> None:
    """A pipeline as a service, on Spark: it is fed, writes its topic, stops in order and goes on where it was."""
    _, commands = told("Pipelines")
    log = '{"time": "2026-11-16T10:%02d:07Z", "level": "ERROR", "service": "shop", "message": "no stock"}\n'
    Path("/try/logs").write_text("".join(log % minute for minute in range(10)))
    run("streamctl publish --create logs --file /try/logs")
    run(commands)
    pipeline = "streamd-pipeline@errors-per-minute.service"

    def results() -> str:
        return run("streamctl tail -n 1 logs.errors-per-minute 2>/dev/null || true")

    wait_until("the pipeline writes", results)
    assert run(f"systemctl show --value --property NRestarts {pipeline}") == "0\n", run(f"journalctl -u {pipeline}")
    run(f"systemctl stop {pipeline}")
    assert run(f"systemctl show --value --property Result {pipeline}") == "success\n", run(f"journalctl -u {pipeline}")
    before = results()
    Path("/try/logs").write_text(log % 30)
    run(f"streamctl publish logs --file /try/logs && systemctl start {pipeline}")
    wait_until("the pipeline goes on", lambda: results() != before)
    print(results(), end="")


def removed() -> None:
    """It stops, settings and data stay, and are there for the next; a purge leaves nothing."""
    before = run("streamctl tail first")
    run("/try/two/packaging/install --remove" if WAY == "install" else "apt-get remove -qq 'streamd*'")
    assert run("systemctl is-active streamd.service streamd.socket || true").split() == ["inactive"] * 2
    assert not HOME.exists(), run(f"find {HOME}")
    assert SETTINGS.exists() and (STORE / "identity").exists()
    assert "streamctl" not in run("ls /usr/bin /usr/local/bin")
    if WAY == "install":
        return
    run("apt-get install -qq --no-install-recommends /try/two/streamd_*.deb")
    assert run("streamctl tail first") == before
    # What somebody has written there is not the package's.
    run("rm -f /etc/streamd/pipelines/* && apt-get purge -qq 'streamd*'")
    left = run("find /etc /usr /opt /var/lib /var/cache /run/systemd -name '*streamd*' -not -path '/var/cache/apt/*'")
    assert left == "", left


def main() -> None:
    """All steps in their order."""
    steps = [installed, used, folded, watched, reloaded, held, upgraded, restored, removed]
    if WAY == "spark":
        steps[2:-1] = [pipelined]
    for step in steps:
        step()
        assert step.__doc__ is not None
        print(f"{step.__name__}: {step.__doc__}")


if __name__ == "__main__":
    try:
        main()
        print("all is well")
    except Exception as error:
        print(f"{type(error).__name__}: {error}\n" + run("journalctl --no-pager --lines 60 --unit 'streamd*'"))
        raise SystemExit(1)
