"""Parts that the clients for threads and for asyncio share."""
