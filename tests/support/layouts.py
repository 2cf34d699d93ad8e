"""Views of a matrix of 4 x 6 elements, for what must take any layout."""

LAYOUTS = {
    "whole": lambda t: t,
    "slice": lambda t: t[1:3],
    "stepped": lambda t: t[::2, 1::3],
    "transposed": lambda t: t.T,
    "reversed": lambda t: t[::-1, ::-2],
    "one element": lambda t: t[2, 3],
}
