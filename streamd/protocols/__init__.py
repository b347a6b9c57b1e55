"""One Protocol and Factory for each wire protocol, all on one base."""
