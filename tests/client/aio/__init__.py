"""Tests of `rmqcli.client.aio`."""
