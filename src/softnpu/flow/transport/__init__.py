"""Messages between processes: records in pipes, payloads in shared memory, queues that outlive their two ends."""
