"""DataFlow below its face: rules, bodies of nodes, and the engines that run them."""
