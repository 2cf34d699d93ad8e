"""Checks the rules of the DLPack exchange on installed libraries, and reports which are kept and which are broken."""

__version__ = "0.1.0"
