"""Changes of a graph before it is written: a file each, in folders by family; `order.py` has their order."""
