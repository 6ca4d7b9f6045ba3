"""Background services of a broker: held pulls, delayed messages, transactions, registration, statistics."""
