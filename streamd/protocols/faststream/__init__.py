"""FastStreamDB: `protocol` is one connection, `contents` knows what all connections are reading and taking."""
