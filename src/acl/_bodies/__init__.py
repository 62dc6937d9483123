"""Bodies of the functions of `acl`, named as the functions: check, one or two core calls, convert. No state here."""
