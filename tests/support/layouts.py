"""Views of a 4 x 6 matrix in every layout, for functions that must accept all of them."""

LAYOUTS = {
    "whole": lambda t: t,
    "slice": lambda t: t[1:3],
    "stepped": lambda t: t[::2, 1::3],
    "transposed": lambda t: t.T,
    "reversed": lambda t: t[::-1, ::-2],
    "one element": lambda t: t[2, 3],
}
