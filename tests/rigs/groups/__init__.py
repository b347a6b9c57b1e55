"""What tests of reader groups stand on."""
