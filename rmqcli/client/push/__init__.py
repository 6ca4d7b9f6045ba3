"""Push consumers: pull loops, process queues, listeners, locks (Java package `impl.consumer`)."""
