"""Runs the rules of the DLPack exchange on live libraries, and says which are kept and which are broken."""

__version__ = "0.1.0"
