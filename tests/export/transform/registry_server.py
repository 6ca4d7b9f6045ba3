"""A schema registry for tests, on a thread: as much of Confluent's API as is read, and its troubles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class Registry:
    """`documents` by path; `asked` are the paths of all requests; the next ones fail with the codes in `script`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.documents: dict[str, Any] = {}
        self.asked: list[str] = []
        self.script: list[int] = []
        self.authorization = ""

    def add(self, number: int, schema: Any, kind: str = "", **more: Any) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        named = {"schemaType": kind} if kind else {}
        path = f"/schemas/ids/{number}"
        self.documents[path] = {"schema": text, **named, **more}
        if kind == "PROTOBUF":
            self.documents[f"{path}?format=serialized"] = self.documents[path]
            self.documents[path] = {"schema": 'syntax = "proto3";', **named, **more}


class _Handler(BaseHTTPRequestHandler):
    registry: Registry

    def do_GET(self) -> None:
        there = self.registry
        there.asked.append(self.path)
        code, document = 200, there.documents.get(self.path)
        if there.script:
            code, document = there.script.pop(0), {"error_code": 50001, "message": "trouble"}
        elif self.headers.get("Authorization", "") != there.authorization:
            code, document = 401, {"error_code": 401, "message": "Unauthorized"}
        elif document is None:
            code, document = 404, {"error_code": 40403, "message": "Schema not found"}
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def registry_server() -> Iterator[Registry]:
    handler = type("Handler", (_Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        handler.registry = found = Registry(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
