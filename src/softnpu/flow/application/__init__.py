"""What a program calls: init and finalize, FlowGraph with its feed and fetch, FlowInfo, options."""
