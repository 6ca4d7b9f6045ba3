"""Figures of a cluster compared with thresholds, in the formats of monitoring systems.

States, ranges and the line of output follow the guidelines of Monitoring Plugins (Nagios, Icinga).
"""
