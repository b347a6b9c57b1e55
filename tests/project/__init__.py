"""Tests of what is beside the package: documents, examples, packaging, benchmarks, the fuzzer and the layout."""
