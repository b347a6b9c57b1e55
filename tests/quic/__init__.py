"""QUIC over real UDP on loopback."""
