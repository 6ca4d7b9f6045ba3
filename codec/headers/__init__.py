"""Ext fields of every request and reply as typed values; class names are Java's, one module an area."""
