"""Services of a broker that run beside its handlers: held pulls, delayed messages, transactions,
registration, statistics.
"""
