"""Pravega's controller on the wire: gRPC calls over HTTP/2 (`grpc`), the messages in them (`messages`, `protobuf`)."""
