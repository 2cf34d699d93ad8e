// ferry: the protocol for Python types, over CPython's C API alone.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/capsule.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/gil.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/install.hpp>
#include <ferry/python/object.hpp>
