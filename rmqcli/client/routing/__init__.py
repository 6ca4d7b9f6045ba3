"""Routes of topics: name servers, queues, brokers that respond slowly."""
