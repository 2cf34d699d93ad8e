// ferry: umbrella header for DLPack's Python protocol; requires only the CPython C API.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/buffer.hpp>
#include <ferry/python/capsule.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/export.hpp>
#include <ferry/python/gil.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/install.hpp>
#include <ferry/python/methods.hpp>
#include <ferry/python/object.hpp>
#include <ferry/python/try_import.hpp>
