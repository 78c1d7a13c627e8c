#!/usr/bin/env python3
"""A proxy in front of one server: it writes down every request, and can make each of them wait.

    python proxy.py HOST:PORT

It prints the port it listens on (of the loopback) and then answers lines on stdin with lines of JSON on stdout:

    log             the requests since the last `clear`, in the order in which they came
    clear           forget them
    latency 0.02    seconds between a request and its answer, for requests from now on; and until a connection is made,
                    for those that come after `hang-up`
    hang-up         close all connections that wait for a request
    add NAME VALUE  a field of every answer that has none of this name
    fail 503 PATH   answer the next request of this path with this status, without asking the server

A request is `{"method", "target", "range", "status", "sent", "received", "connection"}`: bytes of its body, of the
body that came back, and the number of the connection. HTTP/1.1 with connections that stay open, on both sides.

A network takes no core from those who wait for it: bodies of known length that come back are moved by the system, from
socket to socket, and never seen here; as much as a pipe holds (1 MiB) while the answer waits for its time.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import select
import selectors
import socket
import sys

HEAD_LIMIT = 1 << 16
PIECE = 1 << 18
PIPE = 1 << 20
# Read at a time from the server: more would be bytes of bodies.
AHEAD = 1 << 12


class Exact(selectors.EpollSelector):
    """epoll counts whole milliseconds, and more of them than it is told: waiting for its descriptor does not."""

    def select(self, timeout: float | None = None):
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


class Head:
    """The first line and the fields of a request or an answer, kept as they came."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.first, *lines = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        self.fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def closes(self) -> bool:
        return self.fields.get("connection", "").lower() == "close" or self.first.startswith("HTTP/1.0")

    def with_fields(self, fields: dict[str, str]) -> bytes:
        new = [f"{name}: {value}\r\n" for name, value in fields.items() if name.lower() not in self.fields]
        return self.raw[:-2] + "".join(new).encode("latin-1") + b"\r\n"

    def without(self, name: str) -> bytes:
        lines = self.raw.split(b"\r\n")
        return b"\r\n".join(line for line in lines if not line.lower().startswith(name.encode() + b":"))


class Upstream:
    """A connection to the server, like a `StreamReader` and a `StreamWriter`; but the socket is nobody else's, so that it
    can be spliced."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.ahead = b""
        self.unsent = b""

    @classmethod
    async def to(cls, address: tuple[str, int]) -> "Upstream":
        connected = socket.socket()
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, address)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(connected)

    async def _more(self) -> None:
        piece = await asyncio.get_running_loop().sock_recv(self.socket, AHEAD)
        if not piece:
            raise asyncio.IncompleteReadError(self.ahead, None)
        self.ahead += piece

    def _take(self, length: int) -> bytes:
        taken, self.ahead = self.ahead[:length], self.ahead[length:]
        return taken

    async def readuntil(self, separator: bytes) -> bytes:
        while separator not in self.ahead:
            await self._more()
        return self._take(self.ahead.index(separator) + len(separator))

    async def readline(self) -> bytes:
        return await self.readuntil(b"\n")

    async def readexactly(self, length: int) -> bytes:
        while len(self.ahead) < length:
            await self._more()
        return self._take(length)

    async def read(self, length: int) -> bytes:
        """Some bytes; none at the end."""
        if not self.ahead:
            with contextlib.suppress(asyncio.IncompleteReadError):
                await self._more()
        return self._take(length)

    def write(self, data: bytes) -> None:
        self.unsent += data

    async def drain(self) -> None:
        data, self.unsent = self.unsent, b""
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    def close(self) -> None:
        self.socket.close()

    def body(self, length: int) -> "Body":
        """What follows the head of an answer."""
        return Body(self, self._take(min(length, len(self.ahead))), length)


class Body:
    """A body of known length on its way to the client, through a pipe that the system moves it into and out of."""

    def __init__(self, upstream: Upstream, ahead: bytes, length: int) -> None:
        self.upstream = upstream
        self.ahead = ahead  # came with the head
        self.length = length
        self.left = length - len(ahead)  # is to come from the server
        self.in_pipe = 0
        self.out, self.into = os.pipe()
        fcntl.fcntl(self.into, fcntl.F_SETPIPE_SZ, PIPE)

    def close(self) -> None:
        os.close(self.out)
        os.close(self.into)

    async def fetch(self) -> None:
        """Moves what fits into the pipe: while an answer waits, the server is at work."""
        source = self.upstream.socket
        while self.left:
            moved = try_splice(source.fileno(), self.into, min(self.left, PIPE))
            if moved == 0 or (moved is None and select.select([source], [], [], 0)[0]):
                return  # the end, or the pipe is full
            if moved is None:
                await ready(source, reads=True)
            else:
                self.left -= moved
                self.in_pipe += moved

    async def send(self, head: bytes, writer: asyncio.StreamWriter) -> int:
        """Moves all of it to the client, behind the head of the answer; how many bytes came."""
        writer.write(head + self.ahead)
        await writer.drain()  # all is sent when it returns: see `Proxy.serve`
        with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as client:
            while self.in_pipe or self.left:
                if not self.in_pipe:
                    self.in_pipe = await spliced(self.upstream.socket.fileno(), self.into, min(self.left, PIPE),
                                                 waits_for=self.upstream.socket)
                    self.left -= self.in_pipe
                    if not self.in_pipe:
                        break
                self.in_pipe -= await spliced(self.out, client.fileno(), self.in_pipe, waits_for=client)
        return self.length - self.left


def try_splice(source: int, destination: int, most: int) -> int | None:
    """Moves some bytes; None where one end can't."""
    try:
        return os.splice(source, destination, most, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)
    except BlockingIOError:
        return None


async def spliced(source: int, destination: int, most: int, waits_for: socket.socket) -> int:
    """Moves some bytes, as soon as the socket that is one end can."""
    while (moved := try_splice(source, destination, most)) is None:
        await ready(waits_for, reads=waits_for.fileno() == source)
    return moved


async def ready(waits_for: socket.socket, reads: bool) -> None:
    """Until bytes can be read, or written."""
    if reads:
        # What was read is told at once: the server may wait for it with the rest.
        waits_for.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    (loop.add_reader if reads else loop.add_writer)(waits_for, lambda: done.done() or done.set_result(None))
    try:
        await done
    finally:
        (loop.remove_reader if reads else loop.remove_writer)(waits_for)


async def read_head(reader: "asyncio.StreamReader | Upstream") -> Head | None:
    """None where the other side has closed the connection between two messages."""
    try:
        return Head(await reader.readuntil(b"\r\n\r\n"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def pass_body(head: Head, reader, writer, until_closed: bool) -> int:
    """Hands the body on, piece by piece; how many bytes it had."""
    if "chunked" in head.fields.get("transfer-encoding", "").lower():
        total = 0
        while True:
            line = await reader.readline()
            size = int(line.split(b";")[0] or b"0", 16)
            writer.write(line + await reader.readexactly(size + 2))
            await writer.drain()
            total += size
            if size == 0:
                return total
    length = head.fields.get("content-length")
    left = int(length) if length is not None else (1 << 62 if until_closed else 0)
    total = 0
    while left:
        piece = await reader.read(min(left, PIECE))
        if not piece:
            break
        writer.write(piece)
        await writer.drain()
        total += len(piece)
        left -= len(piece)
    return total


class Proxy:
    def __init__(self, host: str, port: int) -> None:
        self.upstream = (host, port)
        self.latency = 0.0
        self.log: list[dict] = []
        self.failures: dict[str, list[int]] = {}
        self.added: dict[str, str] = {}
        self.connections = 0
        self.shakes_hands = False
        self.waiting: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        writer.transport.set_write_buffer_limits(0)
        # The system takes connections at once: what is said on them waits as long as a handshake would take.
        handshake = asyncio.create_task(asyncio.sleep(self.latency if self.shakes_hands else 0))
        upstream = await Upstream.to(self.upstream)
        await handshake
        try:
            while (request := await self.next_request(reader, writer)) is not None:
                if not await self.exchange(request, number, reader, writer, upstream):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # one side went away, or all ends: so does the other
        finally:
            for end in (writer, upstream):
                end.close()

    async def next_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Head | None:
        self.waiting.add(writer)
        try:
            return await read_head(reader)
        finally:
            self.waiting.discard(writer)

    async def exchange(self, request: Head, number: int, reader, writer, upstream: Upstream) -> bool:
        """One request and its answer; whether the connection stays open."""
        method, target, _ = request.first.split(" ", 2)
        line = {"method": method, "target": target, "range": request.fields.get("range"), "status": None, "sent": 0,
                "received": 0, "connection": number}
        self.log.append(line)
        wait = asyncio.create_task(asyncio.sleep(self.latency))
        failures = self.failures.get(target.partition("?")[0])
        if failures:
            return await self.refuse(failures.pop(0), request, line, wait, reader, writer)
        if request.fields.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        upstream.write(request.without("expect"))
        line["sent"] = await pass_body(request, reader, upstream, until_closed=False)
        await upstream.drain()
        answer = await read_head(upstream)
        while answer is not None and answer.first.split(" ")[1] == "100":
            answer = await read_head(upstream)
        if answer is None:
            await wait
            return False
        line["status"] = int(answer.first.split(" ")[1])
        bodiless = method == "HEAD" or line["status"] in (204, 304)
        line["received"] = await self.hand_on(answer, bodiless, wait, upstream, writer)
        counted = bodiless or "content-length" in answer.fields or "transfer-encoding" in answer.fields
        return counted and not answer.closes() and not request.closes()

    async def hand_on(self, answer: Head, bodiless: bool, wait: asyncio.Task, upstream: Upstream, writer) -> int:
        """Hands an answer on when its time has come; bytes of its body."""
        head = answer.with_fields(self.added)
        chunked = "chunked" in answer.fields.get("transfer-encoding", "").lower()
        if not bodiless and not chunked and "content-length" in answer.fields:
            with contextlib.closing(upstream.body(int(answer.fields["content-length"]))) as body:
                fetch = asyncio.create_task(body.fetch())
                try:
                    await wait
                finally:
                    fetch.cancel()
                    await asyncio.gather(fetch, return_exceptions=True)  # what went wrong, `send` meets again
                return await body.send(head, writer)
        await wait
        writer.write(head)
        received = 0 if bodiless else await pass_body(answer, upstream, writer, until_closed=True)
        await writer.drain()
        return received

    async def refuse(self, status: int, request: Head, line: dict, wait, reader, writer) -> bool:
        line["sent"] = await pass_body(request, reader, _Nowhere(), until_closed=False)  # type: ignore[arg-type]
        await wait
        line["status"] = status
        writer.write(f"HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        return True

    async def hang_up(self) -> None:
        """When it returns, all of them are closed: nobody takes one for open."""
        closing = list(self.waiting)
        for writer in closing:
            writer.close()
        for writer in closing:
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def command(self, line: str):
        verb, *arguments = line.split(maxsplit=2)
        if verb == "log":
            return self.log
        if verb == "clear":
            self.log = []
        elif verb == "latency":
            self.latency = float(arguments[0])
        elif verb == "hang-up":
            self.shakes_hands = True
            await self.hang_up()
        elif verb == "add":
            self.added[arguments[0]] = arguments[1]
        elif verb == "fail":
            self.failures.setdefault(arguments[1], []).append(int(arguments[0]))
        else:
            return {"error": f"unknown command {verb}"}
        return {}


class _Nowhere:
    """A writer that forgets."""

    def write(self, data: bytes) -> None:
        pass

    async def drain(self) -> None:
        pass


async def main() -> None:
    host, port = sys.argv[1].rsplit(":", 1)
    proxy = Proxy(host, int(port))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=HEAD_LIMIT, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    commands = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := (await commands.readline()).decode().strip():
        print(json.dumps(await proxy.command(line)), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(Exact())) as runner:
        runner.run(main())
