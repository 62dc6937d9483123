"""Bodies of acl.mdl: models, their data, AIPP, dumps."""
