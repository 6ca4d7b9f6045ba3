"""Figures of a cluster against thresholds, in the forms that monitoring systems read.

States, ranges and the line of output follow the guidelines of Monitoring Plugins (Nagios, Icinga).
"""
