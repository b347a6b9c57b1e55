"""FastStreamDB: `protocol` is one connection, `contents` what all of them are reading and taking."""
