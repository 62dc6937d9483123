"""From a model file to an `.om`: frontends, passes, writer."""
