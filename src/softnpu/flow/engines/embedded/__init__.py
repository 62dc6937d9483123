"""The default engine: a supervised process per node instance, payloads in shared memory."""
