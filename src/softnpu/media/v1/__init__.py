"""First media interface: the objects behind `acl.media`."""
