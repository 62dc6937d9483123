"""From a drawing to plain data: the plan of a graph, checked and placed, and its layout in processes."""
