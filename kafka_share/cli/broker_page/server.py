"""Serves the page: one file, and the JSON that it asks for. It changes nothing in the broker."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from importlib.resources import files
from urllib.parse import parse_qs

from kafka_share.broker.reference_broker import ReferenceBroker
from kafka_share.cli.broker_page.state import state_of
from kafka_share.cli.http_server import Answer, HttpServer


def page_server(broker: ReferenceBroker, host: str, port: int) -> HttpServer:
    """The page at / and its data at /state.json. Only requests for this machine's names or for an address are answered,
    so that no web site can read it through a name of its own that leads here."""
    page = files("kafka_share.cli.broker_page").joinpath("page.html").read_bytes()

    async def whole(query: str) -> Answer:
        return Answer(page, "text/html; charset=utf-8", headers=_headers(page))

    async def state(query: str) -> Answer:
        asked = parse_qs(query)
        group, number = asked.get("group", [""])[0], asked.get("page", ["0"])[0]
        at = int(number) if number.isascii() and number.isdigit() and len(number) < len("1000000") else 0
        document = await asyncio.to_thread(state_of, broker, group, at)
        body = json.dumps(document, separators=(",", ":")).encode()
        return Answer(body, "application/json", headers=(*_ALWAYS, ("Cache-Control", "no-store")))

    return HttpServer({}, host, port, queries={"/": whole, "/state.json": state}, only_own_names=True)


_ALWAYS = (("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"))


def _headers(page: bytes) -> tuple[tuple[str, str], ...]:
    """Nothing from elsewhere, and no script or style but those of the file."""
    hashes = {
        tag: base64.b64encode(hashlib.sha256(found[1]).digest()).decode()
        for tag in ("script", "style")
        if (found := re.search(rb"<%s>(.*?)</%s>" % (tag.encode(), tag.encode()), page, re.DOTALL))
    }
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; style-src 'sha256-{hashes['style']}'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return (*_ALWAYS, ("Content-Security-Policy", policy))
