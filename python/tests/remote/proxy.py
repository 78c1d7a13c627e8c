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
"""

import asyncio
import json
import sys

HEAD_LIMIT = 1 << 16
PIECE = 1 << 18


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


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """None where the other side has closed the connection between two messages."""
    try:
        return Head(await reader.readuntil(b"\r\n\r\n"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def pass_body(head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, until_closed: bool) -> int:
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
        up_reader, up_writer = await asyncio.open_connection(*self.upstream, limit=HEAD_LIMIT)
        if self.shakes_hands:
            # The system takes connections at once: what is said on them waits as long as a handshake would take.
            await asyncio.sleep(self.latency)
        try:
            while (request := await self.next_request(reader, writer)) is not None:
                if not await self.exchange(request, number, reader, writer, up_reader, up_writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # one side went away: so does the other
        finally:
            for end in (writer, up_writer):
                end.close()

    async def next_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Head | None:
        self.waiting.add(writer)
        try:
            return await read_head(reader)
        finally:
            self.waiting.discard(writer)

    async def exchange(self, request: Head, number: int, reader, writer, up_reader, up_writer) -> bool:
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
        up_writer.write(request.without("expect"))
        line["sent"] = await pass_body(request, reader, up_writer, until_closed=False)
        await up_writer.drain()
        answer = await read_head(up_reader)
        while answer is not None and answer.first.split(" ")[1] == "100":
            answer = await read_head(up_reader)
        await wait
        if answer is None:
            return False
        line["status"] = int(answer.first.split(" ")[1])
        writer.write(answer.with_fields(self.added))
        bodiless = method == "HEAD" or line["status"] in (204, 304)
        if not bodiless:
            line["received"] = await pass_body(answer, up_reader, writer, until_closed=True)
        await writer.drain()
        counted = bodiless or "content-length" in answer.fields or "transfer-encoding" in answer.fields
        return counted and not answer.closes() and not request.closes()

    async def refuse(self, status: int, request: Head, line: dict, wait, reader, writer) -> bool:
        line["sent"] = await pass_body(request, reader, _Nowhere(), until_closed=False)  # type: ignore[arg-type]
        await wait
        line["status"] = status
        writer.write(f"HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        return True

    def command(self, line: str):
        verb, *arguments = line.split(maxsplit=2)
        if verb == "log":
            return self.log
        if verb == "clear":
            self.log = []
        elif verb == "latency":
            self.latency = float(arguments[0])
        elif verb == "hang-up":
            self.shakes_hands = True
            for writer in self.waiting:
                writer.close()
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
        print(json.dumps(proxy.command(line)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
