// A DLPack header under another name, as some projects ship it.
#pragma once

#include <dlpack/dlpack.h>

#define SUPPORT_VENDORED_DLPACK
