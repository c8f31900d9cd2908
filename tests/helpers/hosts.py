"""Two hosts on one machine: network namespaces with addresses of their own, joined by a link that can be cut."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PORT = 29500


def run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True, timeout=20)


class Hosts:
    """Names and addresses of two hosts; ``start`` runs torchrun on one of them."""

    def __init__(self) -> None:
        number = os.getpid() % 250
        self.names = [f"vadd{os.getpid()}{letter}" for letter in "ab"]
        self.addresses = [f"10.77.{number}.{last}" for last in (1, 2)]

    def create(self) -> None:
        for name in self.names:
            run("ip", "netns", "add", name)
        one, two = self.names
        run("ip", "link", "add", "eth0", "netns", one, "type", "veth", "peer", "name", "eth0", "netns", two)
        for name, address in zip(self.names, self.addresses, strict=True):
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                run("ip", "-n", name, "link", "set", device, "up")

    def remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=20)

    def set_link(self, state: str) -> None:
        run("ip", "-n", self.names[1], "link", "set", "eth0", state)

    def start(
        self, host: int, module: Sequence[str], log: Path, *, restarts: int, wait: float
    ) -> subprocess.Popen[bytes]:
        """torchrun with one process on this host; both hosts meet at the first one's address."""
        rendezvous = ("--rdzv-backend=c10d", f"--rdzv-endpoint={self.addresses[0]}:{PORT}", "--rdzv-id=test")
        torchrun = ("--nnodes=2", "--nproc-per-node=1", f"--max-restarts={restarts}", *rendezvous)
        # torchrun finds out who serves by names, which namespaces do not have
        here = (f"--local-addr={self.addresses[host]}", f"--rdzv-conf=is_host={int(host == 0)},join_timeout=60")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": "1",
            "VADD_TIMEOUT": str(wait),
            # else processes that start again may read the addresses of those that were killed
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        command = ["ip", "netns", "exec", self.names[host], sys.executable, "-m", "torch.distributed.run"]
        with log.open("wb") as output:
            return subprocess.Popen(
                [*command, *torchrun, *here, "-m", *module],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


@contextmanager
def two_hosts() -> Iterator[Hosts]:
    hosts = Hosts()
    try:
        hosts.create()
        yield hosts
    finally:
        hosts.remove()


def why_not() -> str | None:
    """Why hosts cannot be made here, in a few words."""
    try:
        with two_hosts():
            return None
    except FileNotFoundError:
        return "there is no ip command (Debian: iproute2)"
    except (subprocess.SubprocessError, OSError):
        return "network namespaces cannot be made here"
