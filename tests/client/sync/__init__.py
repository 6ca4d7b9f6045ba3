"""Tests of `rmqcli.client.sync`."""
