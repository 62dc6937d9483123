"""Second media interface: the objects behind `acl.himpi`."""
