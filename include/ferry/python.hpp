// ferry: umbrella header for the DLPack protocol of Python types; requires only CPython's C API.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/capsule.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/gil.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/install.hpp>
#include <ferry/python/object.hpp>
