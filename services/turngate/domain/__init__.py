"""The pure core: values in, values out. No socket, clock, logger or event loop is imported below this package."""
