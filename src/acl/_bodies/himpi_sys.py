"""Bodies of `acl.himpi`: system, memory, epoll."""
