"""Model files of a graph, compiled in the application before anything is deployed."""
