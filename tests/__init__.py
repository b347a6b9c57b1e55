"""The tests of streamd, in the same places as what they test. `make test` runs them under trial."""
