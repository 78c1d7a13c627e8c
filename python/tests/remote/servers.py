"""The servers: S3 by moto, GCS by gcp-storage-emulator, Azure by azurite, plain HTTP by nginx.

Each is a process of its own on the loopback, behind a proxy that counts requests. Those of Python come from the
environment of the tests, azurite and nginx from `build/servers` (`make servers`) or the path. What is missing raises
`Missing`, which tests turn into a skip, or into a failure where TIFFJET_TEST_REMOTE is set.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

FOLDER = Path(os.environ.get("TIFFJET_SERVERS", Path(__file__).parents[3] / "build" / "servers"))
BUCKET = "tiffjet"
# The account and key that azurite has by design; they open nothing else.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Missing(Exception):
    """A server that is not installed."""


@dataclass(frozen=True)
class Request:
    """One request as the proxy saw it."""

    method: str
    target: str
    range: str | None
    status: int | None
    sent: int
    received: int
    connection: int


class Proxy:
    """The proxy process in front of a server."""

    def __init__(self, port: int) -> None:
        command = [sys.executable, "-P", str(Path(__file__).with_name("proxy.py")), f"127.0.0.1:{port}"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._process.stdout.readline())

    def _ask(self, line: str):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def requests(self) -> list[Request]:
        """All requests since the last `clear`."""
        return [Request(**line) for line in self._ask("log")]

    def clear(self) -> None:
        self._ask("clear")

    def latency(self, seconds: float) -> None:
        """How long every request from now on waits for its answer."""
        self._ask(f"latency {seconds}")

    def hang_up(self) -> None:
        """Closes idle connections; new ones take as long as a request."""
        self._ask("hang-up")

    def add(self, name: str, value: str) -> None:
        """A field that every answer has from now on, where the server leaves it out."""
        self._ask(f"add {name} {value}")

    def fail(self, status: int, path: str) -> None:
        """The next request for this path is refused."""
        self._ask(f"fail {status} {path}")

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


@dataclass
class Server:
    """A running server: where it is, how to put a file there, what clients must know."""

    kind: str
    process: subprocess.Popen
    port: int
    folder: Path
    proxy: Proxy = field(init=False)

    def __post_init__(self) -> None:
        wait_for(self.port, self.process)
        self.proxy = Proxy(self.port)

    @property
    def endpoint(self) -> str:
        """Address of the proxy."""
        return f"http://127.0.0.1:{self.proxy.port}"

    @property
    def direct(self) -> str:
        """Address of the server itself, past the proxy."""
        return f"http://127.0.0.1:{self.port}"

    def url(self, name: str) -> str:
        return f"{self.endpoint}/{name}"

    @property
    def storage_options(self) -> dict[str, object]:
        return {}

    @property
    def write_options(self) -> dict[str, object]:
        """Those of whoever may write."""
        return self.storage_options

    def put(self, name: str, data: bytes) -> None:
        raise NotImplementedError

    def get(self, name: str) -> bytes | None:
        """The object past the proxy; None where there is none."""
        raise NotImplementedError

    def stop(self) -> None:
        self.proxy.stop()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Nginx(Server):
    def put(self, name: str, data: bytes) -> None:
        path = self.folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_bytes(data)
        new.replace(path)

    def get(self, name: str) -> bytes | None:
        return fetch(f"{self.direct}/{name}")


class S3(Server):
    def url(self, name: str) -> str:
        return f"s3://{BUCKET}/{name}"

    @property
    def storage_options(self) -> dict[str, object]:
        return {"endpoint": self.endpoint, "region": "us-east-1", "access_key_id": "testing",
                "secret_access_key": "testing"}

    def put(self, name: str, data: bytes, bucket: str = BUCKET, public: bool = False) -> None:
        # moto takes any key; it tells which account is meant.
        if bucket != BUCKET:
            send("PUT", f"{self.direct}/{bucket}", None, {"Authorization": _FAKE_SIGNATURE})
        fields = {"Authorization": _FAKE_SIGNATURE, **({"x-amz-acl": "public-read"} if public else {})}
        send("PUT", f"{self.direct}/{bucket}/{name}", data, fields)

    def get(self, name: str, bucket: str = BUCKET) -> bytes | None:
        return fetch(f"{self.direct}/{bucket}/{name}", {"Authorization": _FAKE_SIGNATURE})

    def uploads(self) -> str:
        """Uploads in parts that are neither complete nor aborted, as the server's XML."""
        answer = fetch(f"{self.direct}/{BUCKET}?uploads", {"Authorization": _FAKE_SIGNATURE})
        return (answer or b"").decode()


_FAKE_SIGNATURE = (
    "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
)


_ACCOUNT = ("client_email", "private_key", "private_key_id")


class Gcs(Server):
    def url(self, name: str) -> str:
        return f"gs://{BUCKET}/{name}"

    @property
    def storage_options(self) -> dict[str, object]:
        return {"endpoint": self.endpoint, "anonymous": True}

    @property
    def write_options(self) -> dict[str, object]:
        account = {"gcs_base_url": self.endpoint, "disable_oauth": True}
        return {"service_account_key": json.dumps(account | dict.fromkeys(_ACCOUNT, ""))}

    def put(self, name: str, data: bytes) -> None:
        send("POST", f"{self.direct}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={name}", data)

    def get(self, name: str) -> bytes | None:
        return fetch(f"{self.direct}/{BUCKET}/{name}")


class Azure(Server):
    def url(self, name: str) -> str:
        return f"az://{BUCKET}/{name}"

    @property
    def storage_options(self) -> dict[str, object]:
        return {"endpoint": f"{self.endpoint}/{AZURE_ACCOUNT}", "account_name": AZURE_ACCOUNT,
                "account_key": AZURE_KEY}

    def put(self, name: str, data: bytes) -> None:
        self._send("PUT", f"/{BUCKET}/{name}", data, {"x-ms-blob-type": "BlockBlob"})

    def get(self, name: str) -> bytes | None:
        try:
            return self._send("GET", f"/{BUCKET}/{name}")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def _send(self, method: str, path: str, data: bytes = b"", fields: dict[str, str] | None = None) -> bytes:
        fields = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02", **(fields or {})}
        if data:
            fields["Content-Type"] = "application/octet-stream"
        fields["Authorization"] = _shared_key(method, f"/{AZURE_ACCOUNT}{path}", len(data), fields)
        return send(method, f"{self.direct}/{AZURE_ACCOUNT}{path}", data or None, fields)


def _shared_key(method: str, path: str, length: int, fields: dict[str, str]) -> str:
    """Azure's signature: the verb, eleven standard fields of which two are used, its own fields, the resource."""
    resource, _, query = path.partition("?")
    own = "".join(f"{name}:{fields[name]}\n" for name in sorted(fields) if name.startswith("x-ms-"))
    asked = "".join(f"\n{name}:{value}" for name, value in sorted(pair.split("=") for pair in query.split("&") if pair))
    standard = ["", "", str(length) if length else "", "", fields.get("Content-Type", ""), "", "", "", "", "", ""]
    text = f"{method}\n" + "\n".join(standard) + f"\n{own}/{AZURE_ACCOUNT}{resource}{asked}"
    digest = hmac.new(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256).digest()
    return f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}"


def send(method: str, url: str, data: bytes | None = None, fields: dict[str, str] | None = None) -> bytes:
    fields = {"Content-Type": "application/octet-stream", **(fields or {})} if data else fields or {}
    request = urllib.request.Request(url, data=data, method=method, headers=fields)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def fetch(url: str, fields: dict[str, str] | None = None) -> bytes | None:
    try:
        return send("GET", url, None, fields)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port: int, process: subprocess.Popen, seconds: float = 60) -> None:
    """Until somebody listens."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args} ended with {process.returncode} before it listened")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise RuntimeError(f"{process.args} does not listen on {port}")


def start(command: list[str | Path], folder: Path, **environment: str) -> subprocess.Popen:
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                cwd=folder, env={**os.environ, **environment})


def need_module(module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise Missing(f"{package} is not installed (pip install '{package}')")


def find_program(name: str, kept: Path) -> str:
    """In `build/servers`, or on the path."""
    if kept.exists():
        return str(kept)
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if found is None:
        raise Missing(f"{name} is not installed (make servers)")
    return found


NGINX = """
daemon off; master_process off; pid nginx.pid; error_log stderr warn;
events {{ worker_connections 512; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000;
    client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
    default_type application/octet-stream;
    server {{ listen 127.0.0.1:{port}; root files; autoindex on;
        rewrite ^/again-[0-9]+/(.*)$ /$1 last; # the same file under a name that nobody has cached
    }}
}}
"""


def start_nginx(folder: Path) -> Server:
    program = find_program("nginx", FOLDER / "nginx" / "usr" / "sbin" / "nginx")
    port = free_port()
    (folder / "files").mkdir(exist_ok=True)
    (folder / "tmp").mkdir(exist_ok=True)
    (folder / "nginx.conf").write_text(NGINX.format(port=port))
    command = [program, "-p", folder, "-c", folder / "nginx.conf", "-e", "stderr"]
    return Nginx("http", start(command, folder), port, folder)


def start_s3(folder: Path) -> Server:
    need_module("moto.server", "moto[server,s3]")
    port = free_port()
    process = start([sys.executable, "-P", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], folder)
    server = S3("s3", process, port, folder)
    send("PUT", f"{server.direct}/{BUCKET}", None, {"Authorization": _FAKE_SIGNATURE})
    return server


def start_gcs(folder: Path) -> Server:
    need_module("gcp_storage_emulator", "gcp-storage-emulator")
    port = free_port()
    command = [sys.executable, "-P", "-m", "gcp_storage_emulator", "start", "--host", "127.0.0.1", "--port", str(port),
               "--in-memory", "--default-bucket", BUCKET]
    server = Gcs("gcs", start(command, folder), port, folder)
    # What Google's has and clients need, and the emulator leaves out.
    server.proxy.add("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
    server.proxy.add("ETag", '"1"')
    return server


def start_azure(folder: Path) -> Server:
    program = find_program("azurite-blob", FOLDER / "azurite" / "node_modules" / ".bin" / "azurite-blob")
    port = free_port()
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent", "--inMemoryPersistence",
               "--skipApiVersionCheck", "--disableTelemetry"]
    server = Azure("azure", start(command, folder), port, folder)
    server._send("PUT", f"/{BUCKET}?restype=container")
    return server


STARTERS = {"http": start_nginx, "s3": start_s3, "gcs": start_gcs, "azure": start_azure}
