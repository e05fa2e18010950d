"""A slow wire: carries frames between two network interfaces with delay, loss and a rate. Run as `python3 -m lab.wire`.

Not every kernel has netem, and netfilter's queues would leave rules in the host where a test might find or flush them.
Frames are taken and given as packet sockets see them, with their offload header, so that unfinished checksums and large
segments cross unharmed.
"""

import argparse
import collections
import random
import select
import socket
import time

SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
ETH_P_ALL = 3
LARGEST = 10 + 65536 + 64
LONGEST_QUEUE = 2.0  # seconds of traffic at the wire's rate; what comes after that is dropped, as a router would
BUFFER = 8 << 20


def tap(interface: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    end.bind((interface, ETH_P_ALL))
    end.setblocking(False)
    return end


class Direction:
    """One way of the wire. Frames leave in the order they came, each at its own time."""

    def __init__(self, target: socket.socket, options: argparse.Namespace) -> None:
        self.target, self.options = target, options
        self.queue: collections.deque[tuple[float, bytes]] = collections.deque()
        self.free = 0.0  # when the wire has sent all that it accepted

    def accept(self, frame: bytes, now: float) -> None:
        if random.random() * 100 < self.options.loss:
            return
        start = max(now, self.free)
        if self.options.rate:
            if start - now > LONGEST_QUEUE:
                return
            self.free = start + len(frame) / self.options.rate
        self.queue.append((max(self.free, now) + self.options.delay / 1000, frame))

    def release(self, now: float) -> None:
        while self.queue and self.queue[0][0] <= now:
            try:
                self.target.send(self.queue[0][1])
            except BlockingIOError:
                return
            except OSError:
                pass  # the other end is down: the frame is lost, as on any wire
            self.queue.popleft()

    def due(self) -> float | None:
        return self.queue[0][0] if self.queue else None


def carry(near: str, far: str, options: argparse.Namespace) -> None:
    ends = [tap(near), tap(far)]
    ways = {ends[0]: Direction(ends[1], options), ends[1]: Direction(ends[0], options)}
    print("carrying", flush=True)
    while True:
        times = [due for way in ways.values() if (due := way.due()) is not None]
        wait = max(0.0, min(times) - time.monotonic()) if times else None
        for end in select.select(ends, [], [], wait)[0]:
            for _ in range(256):
                try:
                    ways[end].accept(end.recv(LARGEST), time.monotonic())
                except BlockingIOError:
                    break
                except OSError:
                    break  # the interface is down for now
        for way in ways.values():
            way.release(time.monotonic())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("near")
    parser.add_argument("far")
    parser.add_argument("--delay", type=float, default=0, help="milliseconds, each way")
    parser.add_argument("--loss", type=float, default=0, help="percent, each way")
    parser.add_argument("--rate", type=float, default=0, help="bytes a second, each way; 0 for no limit")
    chosen = parser.parse_args()
    carry(chosen.near, chosen.far, chosen)
