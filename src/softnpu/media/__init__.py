"""Media: pictures and video in device memory, as the DVPP chapters of the manuals describe them."""
