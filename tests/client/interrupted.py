"""A program with consumers of one style, which says when they have got a message and then waits for Ctrl-C."""

from __future__ import annotations

import sys

from tests.client.styles import STYLES, Consumers

if __name__ == "__main__":
    name, topic, namesrv = sys.argv[1:]
    style = next(one for one in STYLES if one.name == name)

    async def main() -> None:
        async with Consumers(style, topic, namesrv=namesrv) as consumers:
            await consumers.get(b"1")
            await consumers.lite.poll(0)  # acknowledges the message, which a Ctrl-C before would not do
            print("ready", flush=True)
            while True:
                await consumers.lite.poll(60)

    style.run(main)
